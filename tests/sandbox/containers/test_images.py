# SPDX-License-Identifier: Apache-2.0
"""What the images hold, what they must not hold, and that a wrong one is noticed."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import docker
import docker.errors
import pytest

from policy.people.kits import Kit
from sandbox.containers.base_image import pull, split_tag
from sandbox.containers.build import LABEL_CODE, LABEL_IMAGE, LABEL_KIT, Build
from sandbox.containers.images import (
    CELL,
    KEEPER,
    Images,
    build_cell_image,
    build_kit_image,
    building,
    check_image,
    ensure_images,
    list_images,
    names,
    remove_images,
)
from sandbox.containers.plan import LABEL_TEST
from sandbox.containers.probe import CellImage, probe
from sandbox.containers.progress import SilentProgress
from sandbox.containers.recipe import code_digest, recipes
from sandbox.errors import BadInput, ImageProblem
from tests.sandbox.shells import Shell

Run = Callable[..., str]


@pytest.fixture
def run(docker_client: docker.DockerClient, run_id: str) -> Run:
    """Return a function that runs a program in an image as an unprivileged user."""

    def run(image: str, *command: str, user: str = "1000:1000") -> str:
        output = docker_client.containers.run(
            image,
            list(command),
            user=user,
            network_mode="none",
            read_only=True,
            tmpfs={"/tmp": "exec", "/home/agent": f"exec,uid={user.split(':')[0]}"},
            environment={"HOME": "/home/agent"},
            labels={LABEL_TEST: run_id},
            remove=True,
        )
        return bytes(output).decode().strip()

    return run


@pytest.fixture
def made(docker_client: docker.DockerClient) -> Iterator[Callable[[str, str], str]]:
    """Return a function that builds a small image of Dockerfile lines and a base, for one test."""
    tags = []

    def build(name: str, dockerfile: str) -> str:
        tag = f"lockgate-test/{name}:{time.monotonic_ns()}"
        docker_client.images.build(
            fileobj=io.BytesIO(dockerfile.encode()), tag=tag, network_mode="none", rm=True
        )
        tags.append(tag)
        return tag

    yield build
    for tag in reversed(tags):
        docker_client.images.remove(tag, force=True)


def test_names_hold_a_digest_of_recipe_and_code() -> None:
    found = names()
    assert found.cell.startswith(f"{CELL}:")
    assert found.keeper.startswith(f"{KEEPER}:")
    assert split_tag(found.cell)[1] == split_tag(found.keeper)[1]
    assert len(split_tag(found.cell)[1]) == 12


def test_recipes_are_found_in_a_checkout() -> None:
    assert {path.name for path in recipes().iterdir()} >= {
        "cell.Dockerfile",
        "keeper.Dockerfile",
        "prepare.sh",
    }


TAGS = {
    "a name alone is the latest": ("debian", ("debian", "latest")),
    "a tag is split off": ("debian:12", ("debian", "12")),
    "a port is no tag": ("localhost:5000/debian", ("localhost:5000/debian", "latest")),
    "a port and a tag": ("localhost:5000/debian:12", ("localhost:5000/debian", "12")),
}


@pytest.mark.parametrize(("image", "parts"), TAGS.values(), ids=TAGS)
def test_splitting_a_tag(image: str, parts: tuple[str, str]) -> None:
    assert split_tag(image) == parts


def test_images_that_exist_are_found_at_once(
    docker_client: docker.DockerClient, images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ensure_base", "build_image"):
        monkeypatch.delattr(f"sandbox.containers.images.{name}")
    assert ensure_images(docker_client, SilentProgress()) == images


def test_images_carry_the_digest_of_their_code(
    docker_client: docker.DockerClient, images: Images
) -> None:
    for role, tag in (("cell", images.cell), ("keeper", images.keeper)):
        labels = docker_client.images.get(tag).labels
        assert (labels[LABEL_IMAGE], labels[LABEL_CODE]) == (role, code_digest())
        assert check_image(docker_client, tag) is None


def test_images_say_nothing_about_what_to_run(
    docker_client: docker.DockerClient, images: Images
) -> None:
    for tag in (images.cell, images.keeper):
        config = docker_client.images.get(tag).attrs["Config"]
        assert not config.get("Cmd")
        assert not config.get("Entrypoint")
        assert not config.get("Volumes")
        assert not config.get("OnBuild")


def test_the_cell_has_every_tool(docker_client: docker.DockerClient, images: Images) -> None:
    assert probe(docker_client, images.cell).without == ()


def test_the_tools_work_without_privilege(images: Images, run: Run) -> None:
    script = """
        set -e
        cd ~
        whoami
        echo 'int main(void) { return 7; }' >a.c && gcc a.c -o a && ./a || echo "compiled: $?"
        python3 -m venv v && v/bin/python -c 'print("venv")'
        echo 'def test(): pass' >test_a.py
        python3 -m pytest -q test_a.py | tail -n 1 | cut -d' ' -f1-2
        git init -q r && git -C r status --short --branch
        node -e 'console.log("node")'
        npm config get registry >/dev/null && echo npm
        printf '{"a": [1]}' | jq -c .a
        echo word >w && rg -c word w
    """
    assert run(images.cell, "bash", "-c", script).splitlines() == [
        "agent1000",
        "compiled: 7",
        "venv",
        "1 passed",
        "## No commits yet on main",
        "node",
        "npm",
        "[1]",
        "1",
    ]


@pytest.mark.parametrize("uid", [501, 1000, 1060, 10000])
def test_owners_of_workspaces_have_a_name(images: Images, run: Run, uid: int) -> None:
    assert run(images.cell, "whoami", user=f"{uid}:{uid}").startswith("agent")


def test_nothing_lends_rights_and_nothing_is_open_to_all(images: Images, run: Run) -> None:
    lends = "find / -xdev ! -type l -perm /6000"
    opened = "find / -xdev ! -type l -perm -0002 ! -path '/tmp*' ! -path '/home/agent*'"
    for image in (images.cell, images.keeper):
        assert run(image, "sh", "-c", f"({lends}; {opened}) 2>/dev/null || true", user="0:0") == ""


def test_no_secret_of_the_host_is_inside(images: Images, run: Run) -> None:
    script = (
        "cat /etc/machine-id; ls -A /root /home/agent | grep -v :; ls /etc/ssh 2>/dev/null;"
        "ls -d /etc/apt/auth.conf* 2>/dev/null; grep -rE '://[^/ ]+@' /etc/apt;"
        "cut -d: -f2 /etc/shadow | grep -v '^[*!]*$'"
    )
    for image in (images.cell, images.keeper):
        assert run(image, "sh", "-c", f"({script}) || true", user="0:0") == ""


def test_the_code_can_be_run_and_not_written(images: Images, run: Run) -> None:
    start = "import sys; sys.path.insert(0, '/'); import cell; print(cell.__file__)"
    writable = "find /cell ! -type d -perm /0222; find /cell -name '*.py' | wc -l"
    sources = len(list((Path(__file__).parents[3] / "sandbox/cell").rglob("*.py")))
    for image in (images.cell, images.keeper):
        assert run(image, "python3", "-I", "-B", "-c", start) == "/cell/__init__.py"
        assert run(image, "sh", "-c", writable) == str(sources)
        assert run(image, "sh", "-c", "find /cell -name '*.pyc' | wc -l") == str(sources)


def test_the_keeper_has_watchdog_and_no_tools(images: Images, run: Run) -> None:
    code = (
        "import json, shutil, watchdog.observers, watchdog.version;"
        "print(json.dumps([watchdog.version.VERSION_MAJOR,"
        "[t for t in ('git', 'gcc', 'curl', 'node', 'make') if shutil.which(t)]]))"
    )
    version, tools = json.loads(run(images.keeper, "python3", "-I", "-c", code))
    assert version >= 7
    assert tools == []


COMMANDS = {
    "this version's": ("lockgate/cell:0123", "lockgate image build"),
    "a kit's": ("lockgate/go", "lockgate image build --for go"),
    "a kit's with its tag": ("lockgate/go:latest", "lockgate image build --for go"),
    "one beside a kit's": (
        "lockgate/go:1",
        "lockgate image build --from IMAGE --tag lockgate/go:1",
    ),
    "of no kit": ("lockgate/perl", "lockgate image build --from IMAGE --tag lockgate/perl"),
    "a person's own": ("go", "lockgate image build --from IMAGE --tag go"),
}


@pytest.mark.parametrize(("tag", "command"), COMMANDS.values(), ids=COMMANDS)
def test_the_command_that_makes_an_image_is_the_one_for_its_name(tag: str, command: str) -> None:
    assert building(tag) == command


class NoEngine:
    """Names and labels of images, in the place of an engine's client."""

    def __init__(self, known: dict[str, dict[str, str]]) -> None:
        self.known = known
        self.images = self

    def get(self, tag: str) -> Named:
        if tag not in self.known:
            raise docker.errors.ImageNotFound(tag)
        return Named(self.known, tag)

    def remove(self, tag: str) -> None:
        self.known.pop(tag)


class Named:
    """One of them."""

    def __init__(self, known: dict[str, dict[str, str]], tag: str) -> None:
        self.known, self.labels = known, known[tag]

    def tag(self, repository: str, name: str) -> None:
        self.known[f"{repository}:{name}"] = self.labels


KIT = Kit("test-kit", ("hello",), ("hello",), ())
OLD = {LABEL_KIT: "test-kit", "made": "before"}


@pytest.mark.parametrize("before", [{}, OLD], ids=["none", "an older one"])
def test_a_kits_name_is_given_once_the_image_was_looked_into(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, str]
) -> None:
    known = {"lockgate/test-kit:latest": before} if before else {}

    def build(client: NoEngine, build: Build, _: object) -> None:
        client.known[build.tag] = build.labels()

    def fails(_: object, tag: str) -> CellImage:
        raise ImageProblem(f"`{tag}` has no bash")

    base = "sandbox.containers.images"
    monkeypatch.setattr(f"{base}.ensure_images", lambda *_: Images("cell", "keeper"))
    monkeypatch.setattr(f"{base}.build_image", build)
    monkeypatch.setattr(f"{base}.probe", fails)
    engine = cast("docker.DockerClient", NoEngine(known))
    was = dict(known)
    with pytest.raises(ImageProblem, match="has no bash"):
        build_kit_image(engine, KIT, SilentProgress())
    assert known == was
    monkeypatch.setattr(f"{base}.probe", lambda _, tag: CellImage(tag, "3.11", ()))
    assert build_kit_image(engine, KIT, SilentProgress()).tag == "lockgate/test-kit"
    assert set(known) == {"lockgate/test-kit:latest"}
    assert known["lockgate/test-kit:latest"][LABEL_CODE] == code_digest()


def test_a_persons_own_image_keeps_the_name_of_a_kit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sandbox.containers.images.ensure_images", lambda *_: Images("cell", "keeper")
    )
    known = {"lockgate/test-kit:latest": {LABEL_IMAGE: "cell"}}
    with pytest.raises(BadInput, match="is an image of your own"):
        build_kit_image(cast("docker.DockerClient", NoEngine(known)), KIT, SilentProgress())
    assert known == {"lockgate/test-kit:latest": {LABEL_IMAGE: "cell"}}


def test_a_missing_image_is_named(docker_client: docker.DockerClient) -> None:
    assert check_image(docker_client, "lockgate-test/none:1") == (
        "image `lockgate-test/none:1` is missing: "
        "run `lockgate image build --from IMAGE --tag lockgate-test/none:1`"
    )


def test_an_image_of_another_version_is_noticed(
    docker_client: docker.DockerClient, images: Images, made: Callable[[str, str], str]
) -> None:
    tag = made("old", f"FROM {images.keeper}\nLABEL {LABEL_CODE}=0 org.lockgate.version=0.0.1\n")
    made_from = docker_client.images.get(tag).labels["org.lockgate.from"]
    assert check_image(docker_client, tag) == (
        f"image `{tag}` holds the code of another version (0.0.1): "
        f"run `lockgate image build --from {made_from} --tag {tag}`"
    )
    listed = {info.tag: info.current for info in list_images(docker_client)}
    assert (listed[images.keeper], listed[tag]) == (True, False)
    remove_images(docker_client, old_only=True)
    assert docker_client.images.get(tag)  # a name of the user's own stays


def test_a_kit_adds_programs_to_the_cells_own_image(
    docker_client: docker.DockerClient, images: Images, made: Callable[[str, str], str], run: Run
) -> None:
    kit = Kit("test-kit", ("hello",), ("hello",), ())
    try:
        found = build_kit_image(docker_client, kit, SilentProgress())
        assert (found.tag, found.without) == ("lockgate/test-kit", ())
        assert check_image(docker_client, found.tag) is None
        assert run(found.tag, "hello", "-g", "ready") == "ready"
        old = made("old-kit", f"FROM {found.tag}\nLABEL {LABEL_CODE}=0\n")
        assert str(check_image(docker_client, old)).endswith(
            "run `lockgate image build --for test-kit`"
        )
        with pytest.raises(ImageProblem, match="could not be installed: no-such-program"):
            build_kit_image(
                docker_client, Kit("test-kit", (), ("no-such-program",), ()), SilentProgress()
            )
        assert run(found.tag, "hello", "-g", "still here") == "still here"
    finally:
        docker_client.images.remove("lockgate/test-kit", force=True)


def test_kits_and_images_do_not_mix(shell: Shell) -> None:
    status, _, err = shell("image", "build", "--for", "go", "--from", "x")
    assert (status, "`--for` stands alone" in err) == (2, True)


def test_a_foreign_image_is_no_cell(
    docker_client: docker.DockerClient, images: Images, made: Callable[[str, str], str]
) -> None:
    tag = made("foreign", f"FROM {images.cell}\nLABEL {LABEL_IMAGE}=keeper\nRUN rm /bin/bash\n")
    with pytest.raises(ImageProblem, match=r"has no bash"):
        probe(docker_client, tag)


def test_a_cell_image_can_be_made_of_another_image(
    docker_client: docker.DockerClient, images: Images, made: Callable[[str, str], str]
) -> None:
    # Neither Debian nor Alpine, a shell of another kind, a user, an entry point, a health check.
    source = made(
        "plain",
        f"FROM {images.cell}\n"
        "RUN rm -f /usr/bin/apt-get /usr/bin/jq /usr/bin/npm && chmod u+s /usr/bin/env\n"
        'USER 1000\nENTRYPOINT ["/bin/false"]\nHEALTHCHECK CMD true\n',
    )
    tag = f"{source}-cell"
    try:
        found = build_cell_image(docker_client, source, tag, SilentProgress())
        assert (found.tag, found.without) == (tag, ("npm", "jq"))
        assert check_image(docker_client, tag) is None
        assert docker_client.images.get(tag).labels["org.lockgate.from"] == source
        assert not any("candidate" in info.tag for info in list_images(docker_client))
    finally:
        docker_client.images.remove(tag, force=True)


def test_what_an_alpine_like_image_lacks_is_asked_of_apk(
    docker_client: docker.DockerClient, images: Images, made: Callable[[str, str], str], run: Run
) -> None:
    apk = 'echo "$@" >/asked\\nprintf "#!/bin/sh\\\\n" >/usr/bin/jq\\nchmod +x /usr/bin/jq\\n'
    source = made(
        "alpine",
        f"FROM {images.cell}\n"
        "RUN rm -f /usr/bin/apt-get /usr/bin/jq /usr/include/stdio.h && "
        f"printf '#!/bin/sh\\n{apk}' >/sbin/apk && chmod +x /sbin/apk\n",
    )
    tag = f"{source}-cell"
    try:
        found = build_cell_image(docker_client, source, tag, SilentProgress())
        assert found.without == ()
        assert run(tag, "cat", "/asked") == "add --no-cache jq musl-dev"
    finally:
        docker_client.images.remove(tag, force=True)


PROBLEMS = {
    "no python": ("RUN rm /usr/bin/python3 /usr/bin/apt-get", "python3 is missing"),
    "no bash": ("RUN rm /usr/bin/bash /usr/bin/apt-get", "bash is missing"),
    "an old python": (
        "RUN rm /usr/bin/apt-get /usr/bin/python3 && "
        "printf '#!/bin/sh\\n[ \"$1\" = --version ] && echo Python 3.7.3\\nexit 1\\n'"
        " >/usr/bin/python3 && chmod +x /usr/bin/python3",
        "Python 3.7.3 is too old",
    ),
    "a volume": ("VOLUME /data", "declares volumes (/data)"),
}


@pytest.mark.parametrize(("line", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_an_image_that_cannot_serve_is_refused_in_one_line(
    docker_client: docker.DockerClient,
    images: Images,
    made: Callable[[str, str], str],
    line: str,
    problem: str,
) -> None:
    source = made("unfit", f"FROM {images.cell}\n{line}\n")
    with pytest.raises(ImageProblem) as caught:
        build_cell_image(docker_client, source, f"{source}-cell", SilentProgress())
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(docker.errors.ImageNotFound):
        docker_client.images.get(f"{source}-cell")


def test_an_image_is_not_replaced_by_its_own_cell(
    docker_client: docker.DockerClient, images: Images
) -> None:
    with pytest.raises(BadInput, match="names the image to start from"):
        build_cell_image(docker_client, images.cell, images.cell, SilentProgress())


def test_an_image_that_cannot_be_had_is_a_problem(docker_client: docker.DockerClient) -> None:
    assert pull(docker_client, "localhost:9/lockgate-test/none:1", SilentProgress())
