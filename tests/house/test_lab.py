"""`make lab`: JupyterLab on loopback, behind a token, saving notebooks as a rerun stores them."""

import copy
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import nbformat
import pytest

from derivations.claims import lab

NOTEBOOK = "derivations/deferral/esrt.ipynb"


@pytest.fixture(scope="module")
def server(root, tmp_path_factory):
    """Start the server as `make lab` does, without a browser; return its address and token."""
    log = tmp_path_factory.mktemp("lab") / "log"
    command = [sys.executable, "-m", "derivations.claims.lab", "deferral/esrt", "--no-browser"]
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, "--port=0"], cwd=root, stdout=file, stderr=file, start_new_session=True
        )
    try:
        for _ in range(600):
            found = re.search(r"(http://\S+?)(/lab\S*)\?token=(\w+)", log.read_text())
            if found or process.poll() is not None:
                break
            time.sleep(0.1)
        assert found, log.read_text()
        wait_for(found[1])
        yield found.groups()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def wait_for(address):
    """Wait until the server, which says its address a little earlier, answers there."""
    for _ in range(300):
        try:
            return ask(f"{address}/api")
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"{address} does not answer")


def ask(address, token=None, method="GET", content=None):
    request = urllib.request.Request(address, method=method)
    if token:
        request.add_header("Authorization", f"token {token}")
    if content is not None:
        request.data = json.dumps(content).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""


@pytest.mark.xdist_group("lab")
def test_it_opens_the_notebook_on_loopback_and_asks_for_a_token(server):
    address, page, token = server
    assert re.match(r"http://(127\.0\.0\.1|localhost):", address)
    assert page == f"/lab/tree/{NOTEBOOK}"
    assert len(token) >= 32
    port = int(address.rpartition(":")[2])
    hosts = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for host in hosts - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((host, port), timeout=5)
    contents = f"{address}/api/contents/{NOTEBOOK}"
    assert ask(contents)[0] == 403
    assert ask(contents, "0" * len(token))[0] == 403
    assert ask(contents, token)[0] == 200
    assert ask(address + page, token)[0] == 200


@pytest.mark.xdist_group("lab")
def test_what_it_saves_leaves_a_clean_diff(root, server):
    """Save as JupyterLab does after a run: counts go on, streams come in pieces, ids are new."""
    address, _, token = server
    path = root / "derivations" / "deferral" / "saved_by_a_test.ipynb"
    stored = nbformat.read(root / NOTEBOOK, as_version=4)
    plain = copy.deepcopy(stored)
    plain.metadata["kernelspec"]["display_name"] = "Python 3 (ipykernel)"
    plain.metadata["language_info"]["version"] = "3.99.0"
    for cell in plain.cells:
        cell.metadata["trusted"] = True
        if cell.cell_type == "code":
            cell.metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
            cell.execution_count += 40
            pieces = []
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count += 40
                if output.output_type == "stream":
                    for line in output.text.splitlines(keepends=True):
                        pieces.append(nbformat.v4.new_output("stream", name=output.name, text=line))
                else:
                    pieces.append(output)
            cell.outputs = pieces
    assert plain != stored
    try:
        address = f"{address}/api/contents/{path.relative_to(root).as_posix()}"
        status, _ = ask(address, token, "PUT", {"type": "notebook", "content": plain})
        assert status in (200, 201)
        assert path.read_bytes() == (root / NOTEBOOK).read_bytes()
    finally:
        path.unlink(missing_ok=True)


def test_a_stream_in_pieces_is_joined_and_others_are_not():
    new = nbformat.v4.new_output
    pieces = [
        new("stream", name=name, text=text) for name, text in (("stdout", "a"), ("stdout", "b"))
    ]
    other = new("stream", name="stderr", text="c")
    joined = lab._joined([*pieces, other, new("display_data", {"text/plain": "d"})])
    assert [one.get("text") for one in joined] == ["ab", "c", None]


def test_a_notebook_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match=r"notebook = 'deferral/nowhere'"):
        lab.options("deferral/nowhere")
