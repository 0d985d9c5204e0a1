/* Compile an archive of Python modules for Pyodide: `node compile.mjs PYODIDE ARCHIVE COMPILED`.

   Compiled modules start in a tenth of the time. They are compiled by the Python that will read them,
   without the texts that explain functions. */
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, archive, compiled] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`));
const pyodide = await loadPyodide({ indexURL: folder });
pyodide.unpackArchive(new Uint8Array(readFileSync(archive)), "zip", { extractDir: "/sources" });
pyodide.runPython(`
import ast, importlib._bootstrap_external as machinery, warnings, zipfile
from pathlib import Path

warnings.simplefilter("ignore")
with zipfile.ZipFile("/compiled.zip", "w", zipfile.ZIP_DEFLATED) as packed:
    for path in sorted(Path("/sources").rglob("*.py")):
        name = str(path.relative_to("/sources"))
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node, False):
                node.body[0].value.value = ""
        code = compile(tree, name, "exec", dont_inherit=True, optimize=0)
        # The zeros stand for a hash that is not compared with a source, which is not there.
        data = machinery._code_to_hash_pyc(code, bytes(8), False)
        packed.writestr(zipfile.ZipInfo(name + "c"), bytes(data), zipfile.ZIP_DEFLATED)
`);
writeFileSync(compiled, pyodide.FS.readFile("/compiled.zip"));
process.exit(0);
