"""The openstack command, many times in one process, so that Python need not start for each.

Reads lines of JSON, each a list of arguments; runs the command's own main with them, and prints what it printed, and its
exit code, as a line of JSON.
"""
import contextlib
import io
import json
import sys

from openstackclient import shell

for line in sys.stdin:
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = shell.main(json.loads(line))
        except SystemExit as end:
            code = end.code
    print(json.dumps({'out': out.getvalue(), 'err': err.getvalue(), 'code': code or 0}), flush=True)
