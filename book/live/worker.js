/* Python for one chapter, beside the page. It is told {start}, then {run}; it tells what happens. */
import { loadPyodide } from "./pyodide/pyodide.mjs";

const here = new URL("./", import.meta.url).href;
const site = "/lib/python3.14/site-packages";
const tell = (message) => postMessage(message);
let session;

/* Count what is loaded, of `whole` bytes. */
function counting(whole) {
  const plain = self.fetch;
  let loaded = 0;
  self.fetch = async (...given) => {
    const answer = await plain(...given);
    if (!answer.ok || !answer.body) return answer;
    const counted = answer.body.pipeThrough(new TransformStream({
      transform(piece, out) {
        loaded += piece.byteLength;
        tell({ loaded: Math.min(1, loaded / whole) });
        out.enqueue(piece);
      },
    }));
    return new Response(counted, { status: answer.status, headers: answer.headers });
  };
}

async function bytes(name) {
  const answer = await fetch(new URL(name, here));
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return answer.arrayBuffer();
}

async function start({ cells, whole }) {
  counting(whole);
  const [pyodide, libraries, derivations] = await Promise.all([
    loadPyodide({ indexURL: `${here}pyodide/` }),
    bytes("libraries.zip"),
    bytes("derivations.zip"),
  ]);
  tell({ starting: true });
  pyodide.unpackArchive(libraries, "zip", { extractDir: site });
  pyodide.unpackArchive(derivations, "zip", { extractDir: site });
  pyodide.runPython("import sys; sys.dont_write_bytecode = True");
  const live = pyodide.pyimport("derivations.claims.live");
  session = live.Session(pyodide.toPy(cells));
  tell({ ready: true });
}

function run({ targets, sources }) {
  for (const [cell, source] of Object.entries(sources)) session.change(cell, source);
  for (const target of targets) {
    for (const cell of session.plan(target).toJs()) {
      tell({ running: cell });
      const outcome = JSON.parse(session.run(cell).as_json());
      tell({ outcome });
      // What needs a cell that stopped would stop for no reason of its own.
      if (outcome.error && !outcome.claim && cell !== target) {
        tell({ stopped: target, by: cell });
        break;
      }
    }
  }
  tell({ done: true });
}

onmessage = async ({ data }) => {
  try {
    if (data.start) await start(data.start);
    else run(data.run);
  } catch (error) {
    tell({ broken: String(error.message ?? error) });
  }
};
