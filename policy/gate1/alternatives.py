# SPDX-License-Identifier: Apache-2.0
"""What an agent should do instead, in a few words: by the rule that stopped a call, else its layer.

The words are for an agent that goes on by itself, so each names something that it can do.
"""

from __future__ import annotations

from policy.model import LayerAnswer

ADVICE = {
    "recursive-delete": "name the single files that should go, and a person is asked; a person "
    "moves a folder that git ignores away with `lockgate clean PATH`",
    "delete": "leave the file, or go on with other work until a person has answered",
    "remote-script": "download the file, let a person look at it, then run it as a call of its own",
    "untrusted-code": "read the value as data, such as with `json.loads` or `int`",
    "privilege": "do it without another user's rights",
    "secrets": "ask a person for the one value that is needed",
    "world-writable": "give the narrowest mode, such as `chmod u+x`",
    "permissions": "give the narrowest mode to a file of the workspace, such as `chmod u+x`",
    "git-push": "commit locally if that is enough",
    "git-worktree": "commit or copy the work first, and use `git stash` or a branch",
    "git-branch": "work on a new branch, made with `git switch -c`",
    "git-plumbing": "use the everyday command, such as `git commit`",
    "git-config": "give the setting to the one command that needs it, or let a person set it",
    "opaque": "write the command out plainly",
    "runs-program": "run that program as a command of its own",
    "runs-text": "run that program as a command of its own",
    "option": "leave the option out",
    "hidden-text": "write the command in plain characters",
    "redefinition": "call the program by its own name",
    "unknown-program": "use a known program, or let a person name this one under `programs`",
    "unknown-tool": "use a tool that the policy knows, or let a person approve this call",
    "unknown-path": "write the path out",
    "bad-input": "give every parameter that the tool needs, as plain text",
    "outside": "work inside the workspace",
    "workspace": "name the files in it",
    "system": "work inside the workspace; a person looks after the machine",
    "other-home": "work inside the workspace",
    "lockgate-own": "ask a person, who has `lockgate` for it",
    "executed-files": "put it into a file that nothing runs, or let a person look",
    "self-approval": "wait for the person",
    "git-remote": "work on locally until a person has answered",
    "network": "work with what is in the workspace, or write the host's name out: a person's yes "
    "opens the hosts that the card names, and nothing else",
    "scan": "test only what runs in the workspace, with its own tests",
    "packages": "install what the project's own files name, from the usual index",
    "security": "leave the protection on",
    "wipe": "work on files of the workspace",
    "shutdown": "end only what the call itself started",
    "processes": "let what the call started end by itself, or use `timeout`",
    "resources": "use a loop that ends, with `timeout`",
    "launcher": "run the program directly, in the call itself",
    "environment": "leave the variable as it is",
    "containers": "run the program in the cell itself",
    "script": "run the commands of the script one by one, or let a person look at it",
    "code": "use Python or JavaScript in a file of the workspace",
    "editor": "write the file with `Write` or `Edit`",
    "desktop": "write the result to a file and name it",
    "debugger": "run the project's tests, or add logging",
    "database": "query a copy in the workspace, or let a person run it",
    "drop": "let a person run it",
    "truncate": "name the rows with WHERE",
    "delete-all": "name the rows with WHERE",
    "delete-always": "name the rows with WHERE",
    "archive": "unpack it into the workspace",
    "patch": "edit the files with `Edit`, so that it is known which they are",
    "windows": "write the path with `/`, in its plain spelling",
    "web": "name a public page",
    "secret-address": "name the page without it",
    "web-data": "name the page without a long query, or let a person look at the address",
    "tool": "use another tool, or let a person approve this call",
    "tools": "use another tool",
    "role-write": "give the change to an agent whose role may write",
    "role-execute": "give it to an agent whose role may run it",
    "role-push": "commit locally, and let a person or a Deployer push",
    "role-read": "give it to an agent whose role may read",
    "role-unknown": "use one of the roles that there are",
    "policy-file": "ask a person to mend the file",
}
"""By rule."""
_LAYERS = {
    "trust": "work on, and let a person approve this call",
    "mode": "let a person approve this call",
    "level": "work on, and let a person approve this call",
    "role": "give it to an agent whose role may do it",
    "rules": "take another way, or ask a person",
    "tier": "take another way, or ask a person",
    "workspace": "work inside the workspace",
}
"""By layer, where the rule is of one file."""


def advice(answer: LayerAnswer) -> str:
    """Return what to do instead of what an answer stops; empty where the answer says it itself."""
    if "; instead: " in answer.reason:
        return ""
    found = ADVICE.get(answer.rule) or _LAYERS.get(answer.layer, "")
    return "" if found and found in answer.reason else found
