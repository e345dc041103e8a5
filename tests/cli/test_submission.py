"""`batchq submit`: the requests that flags and scripts make, without a server (`--dry-run`)."""

import json

import pytest

from batchq.cli import config
from batchq.cli.main import main

JOB = "3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(config, "SYSTEM_FILE", tmp_path / "system.toml")
    return tmp_path


@pytest.fixture
def planned(capsys):
    """The definition that a dry run would register, if any, and the job that it would submit."""

    def dry_run(*words):
        at = words.index("--") if "--" in words else len(words)
        assert main(["submit", *words[:at], "--dry-run", *words[at:]]) == 0
        printed = capsys.readouterr()
        assert printed.err == "batchq: dry run: nothing is submitted\n"
        *definitions, job = map(json.loads, printed.out.splitlines())
        return [definition["registerJobDefinition"] for definition in definitions], job["submitJob"]

    return dry_run


@pytest.fixture
def refused(capsys):
    """The error of a command line that is refused."""

    def run(*words):
        try:
            status = main(["submit", *words])
        except SystemExit as ended:
            status = ended.code
        assert status == 2
        return capsys.readouterr().err

    return run


def test_each_flag_has_its_member(planned):
    words = ["--name", "fit", "-q", "gpu", "--vcpus", "2", "--memory", "4g", "--gpus", "1", "--array", "10"]
    words += ["--after", JOB, "--after", f"{JOB}:n2n", "--retry", "3", "--time", "1h", "--priority", "0"]
    words += [
        "--share",
        "ada",
        "--tag",
        "a=b=c",
        "--notify",
        "chat",
        "--need",
        "licence-x=2",
        "-e",
        "A=1",
        "-e",
        "A=2",
        "-e",
        "B=",
    ]

    _, job = planned("-d", "align:3", *words, "--", "fit", "--time", "--", "x")

    assert job == {
        "jobName": "fit",
        "jobQueue": "gpu",
        "jobDefinition": "align:3",
        "containerOverrides": {
            "command": ["fit", "--time", "--", "x"],
            "environment": [{"name": "A", "value": "2"}, {"name": "B", "value": ""}],
            "resourceRequirements": [
                {"type": "VCPU", "value": "2"},
                {"type": "MEMORY", "value": "4096"},
                {"type": "GPU", "value": "1"},
            ],
        },
        "arrayProperties": {"size": 10},
        "dependsOn": [{"jobId": JOB}, {"jobId": JOB, "type": "N_TO_N"}],
        "retryStrategy": {"attempts": 3},
        "timeout": {"attemptDurationSeconds": 3600},
        "schedulingPriorityOverride": 0,
        "shareIdentifier": "ada",
        "tags": {"a": "b=c", "batchq:notify": "chat"},
        "consumableResourcePropertiesOverride": {
            "consumableResourceList": [{"consumableResource": "licence-x", "quantity": 2}]
        },
    }


def test_an_image_with_volumes_and_a_user_has_a_definition(planned, folder):
    (definition,), job = planned(
        "lab/tool:1.2", "-v", "in:/in:ro", "-v", "/out:/out", "--user", "ada", "--cd", "/out", "--", "run", "x"
    )

    assert job["jobName"] == "tool"
    assert job["jobQueue"] == "default"
    assert job["jobDefinition"] == definition["jobDefinitionName"]
    assert job["containerOverrides"] == {"command": ["sh", "-c", 'cd "$0" && exec "$@"', "/out", "run", "x"]}
    assert definition["jobDefinitionName"].startswith("cli-tool-")
    assert definition["containerProperties"] == {
        "image": "lab/tool:1.2",
        "user": "ada",
        "volumes": [
            {"name": "volume-1", "host": {"sourcePath": str(folder / "in")}},
            {"name": "volume-2", "host": {"sourcePath": "/out"}},
        ],
        "mountPoints": [
            {"sourceVolume": "volume-1", "containerPath": "/in", "readOnly": True},
            {"sourceVolume": "volume-2", "containerPath": "/out"},
        ],
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "1024"}],
    }


def test_creating_host_paths_is_a_tag_beside_the_tags_of_the_user(planned):
    _, job = planned("a", "-v", "/b:/b", "--create-host-paths", "--tag", "x=y")

    assert job["tags"] == {"x": "y", "batchq:create-host-paths": "true"}


def test_the_definition_depends_on_image_volumes_and_user_only(planned):
    names = [
        planned(*words)[1]["jobDefinition"]
        for words in (
            ["a"],
            ["a", "--memory", "4g", "-e", "A=1", "--", "x"],
            ["a:2"],
            ["a", "--user", "b"],
            ["a", "-v", "/b:/b"],
        )
    ]

    assert names[0] == names[1]
    assert len(set(names)) == 4


def test_environment_comes_from_a_file_and_from_the_shell(planned, folder, monkeypatch):
    monkeypatch.setenv("TOKEN", "t=1")
    (folder / "env").write_text("# comment\n\nA=1\nB=x y\nTOKEN\n")

    _, job = planned("a", "--env-file", "env", "-e", "A=3")

    assert {item["name"]: item["value"] for item in job["containerOverrides"]["environment"]} == {
        "A": "3",
        "B": "x y",
        "TOKEN": "t=1",
    }


def test_files_from_windows_have_the_same_variables_and_flags(planned, folder):
    (folder / "env").write_bytes("\ufeffA=1\r\nB=2\r\n".encode())
    (folder / "a.sh").write_bytes("\ufeff#!/bin/bash\r\n#BATCHQ --image busybox\r\necho\r\n".encode())

    _, job = planned("a.sh", "--env-file", "env")

    assert job["containerOverrides"]["environment"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert job["containerOverrides"]["command"][0] == "/bin/bash"


def test_flags_below_the_first_command_have_no_effect_and_a_warning(folder, capsys):
    (folder / "a.sh").write_text("set -e\n#BATCHQ --memory 8g\n")

    assert main(["submit", "a.sh", "--image", "busybox", "--dry-run"]) == 0

    warning = "a.sh, line 2: this #BATCHQ line has no effect; move it above the first command, line 1"
    assert f"batchq: warning: {warning}\n" in capsys.readouterr().err


def test_a_variable_of_a_file_whose_name_has_a_space_is_refused(refused, folder):
    (folder / "env").write_text("export A=1\n")

    assert "env: 'export A' has a space: write NAME=VALUE, without export" in refused("a", "--env-file", "env")


def test_queue_and_definition_come_from_the_config_file(planned, folder):
    (folder / "config" / "batchq").mkdir(parents=True)
    (folder / "config" / "batchq" / "config.toml").write_text('[defaults]\nqueue = "gpu"\ndefinition = "align"')

    assert planned("--", "x") == (
        [],
        {"jobName": "align", "jobQueue": "gpu", "jobDefinition": "align", "containerOverrides": {"command": ["x"]}},
    )
    assert planned("busybox", "-q", "day")[1]["jobQueue"] == "day"


def test_a_script_is_the_command_and_its_flags_precede_those_of_the_command_line(planned, folder):
    head = "#!/bin/bash -e\n# train\n#BATCHQ --image python:3.12 --memory 2g\n\n#BATCHQ -e MODE='a b' --vcpus 2\n"
    text = f"{head}echo $1\n"
    (folder / "train.sh").write_text(text)

    (definition,), job = planned("train.sh", "--memory", "4g", "--", "one", "--two")

    assert definition["containerProperties"]["image"] == "python:3.12"
    assert job["jobName"] == "train"
    assert job["containerOverrides"]["command"] == ["/bin/bash", "-e", "-c", text, "train.sh", "one", "--two"]
    assert job["containerOverrides"]["environment"] == [{"name": "MODE", "value": "a b"}]
    assert job["containerOverrides"]["resourceRequirements"] == [
        {"type": "VCPU", "value": "2"},
        {"type": "MEMORY", "value": "4096"},
    ]


@pytest.mark.parametrize(
    ("name", "first", "interpreter"),
    [
        ("a.sh", "echo", ["sh", "-c", "TEXT", "a.sh"]),
        ("a.sh", "#!/usr/bin/env bash", ["bash", "-c", "TEXT", "a.sh"]),
        ("a.py", "print()", ["python3", "-c", "TEXT"]),
        ("a.py", "#!/usr/bin/python3.12", ["/usr/bin/python3.12", "-c", "TEXT"]),
    ],
)
def test_the_first_line_of_a_script_names_its_interpreter(planned, folder, name, first, interpreter):
    (folder / name).write_text(first)

    _, job = planned(name, "-d", "any")

    assert job["containerOverrides"]["command"] == [first if word == "TEXT" else word for word in interpreter]


@pytest.mark.parametrize(
    ("word", "warning"),
    [
        ("{rate}", "batchq: warning: the command has {rate}, which --each does not name; its names are lr\n"),
        ("{lr} {print}", ""),
    ],
)
def test_a_placeholder_that_no_value_has_is_a_warning(capsys, word, warning):
    assert main(["submit", "a", "--dry-run", "--each", "lr=1,2", "--", "fit", word]) == 0

    assert capsys.readouterr().err == f"{warning}batchq: dry run: nothing is submitted\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("#!/usr/bin/perl\n", "a.sh: scripts of /usr/bin/perl cannot be submitted, only those of a shell or Python"),
        ("#BATCHQ --name 'x\n", "a.sh, line 1: No closing quotation"),
        ("#BATCHQ -- x\n", "a.sh, line 1: the script is the command; -- cannot be used in a #BATCHQ line"),
        ("#BATCHQ --no-such-flag\n", "unrecognized arguments: --no-such-flag"),
        ("\n", "the script a.sh is empty: write the commands of the job into it"),
        ("x" * 8192, "the script a.sh and the environment have 8242 characters as JSON; AWS Batch allows 8192"),
    ],
)
def test_an_invalid_script_is_refused(refused, folder, text, error):
    (folder / "a.sh").write_text(text)

    assert error in refused("a.sh", "-d", "any")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "give an image or a job definition"),
        (["a", "-d", "b"], "give either one image or -d, not both"),
        (["a", "--image", "b"], "give either one image or -d, not both"),
        (["-d", "b", "--user", "x"], "--volume and --user are parts of a job definition"),
        (["a", "--cd", "/x"], "--cd needs a command: give it after --"),
        (["a", "--time", "0"], "'0' is not a time limit: omit the flag for a job without a limit"),
        (["a", "--share", ""], "the text is empty: omit the flag"),
        (["a", "--user", ""], "the text is empty: omit the flag"),
        (["a", "-e", "NO_SUCH_VARIABLE"], "the environment variable NO_SUCH_VARIABLE is not set"),
        (["a", "-e", "=x"], "'=x' is neither NAME=VALUE nor NAME"),
        (["a", "--env-file", "none"], "cannot read none: No such file or directory"),
        (["a", "-v", "x"], "'x' is not HOST:PATH"),
        (["a", "-v", "x:y"], "'x:y' is not HOST:PATH"),
        (["a", "--tag", "x"], "'x' is not NAME=VALUE"),
        (["a", "--need", "=1"], "'=1' is not RESOURCE=N"),
        (["a", "--after", "a b"], "'a b' is not a job: give an id"),
        (["none.sh"], "cannot read the script none.sh: No such file or directory"),
        (["a", "b", "c"], "the command begins behind --, as in: batchq submit a -- b c; see batchq submit --help"),
        (["a", "b", "--gpus", "1", "c"], "the command begins behind --, as in: batchq submit ... -- b c; see"),
        (["a", "--name", "b c"], "'b c' is not a name of at most 128 letters, digits, hyphens and underscores"),
        (["a", "-q", ""], "the name is empty: omit the flag for the default queue"),
        (["a", "--priority", "10000"], "'10000' is not a whole number from 0 to 9999"),
        (["a", "--each", "lr"], "there is no file lr; values are given as lr=0.1,0.01 or lr=1..5"),
        (["a", "-e", "A=" + "x" * 8192], "the command and the environment have 82"),
    ],
)
def test_an_invalid_command_line_is_refused_in_one_line(refused, words, error):
    output_text = refused(*words)

    assert error in output_text
    assert output_text.count("\n") == 1


def test_a_home_folder_and_variables_of_a_host_path_have_their_values(folder, planned, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("RUNS", "/scratch/runs")
    (folder / "a.sh").write_text("#BATCHQ --image busybox -v ~/data:/data -v $RUNS/1:/out\necho\n")

    (definition,), _ = planned("a.sh")

    volumes = definition["containerProperties"]["volumes"]
    assert [volume["host"]["sourcePath"] for volume in volumes] == ["/home/ada/data", "/scratch/runs/1"]


@pytest.mark.parametrize("path", ["$NO_SUCH_VARIABLE/data", "${NO_SUCH_VARIABLE}", "~no-such-user/data"])
def test_a_host_path_without_a_value_is_refused(refused, path):
    assert "has no value here; give the path" in refused("busybox", "-v", f"{path}:/data")


@pytest.mark.parametrize("line", ["#SBATCH --mem=4G", "#PBS -l nodes=1", "#$ -l h_vmem=4G", "# BATCHQ --memory 4g"])
def test_lines_with_another_mark_have_a_warning(folder, capsys, line):
    (folder / "a.sh").write_text(f"#!/bin/sh\n{line}\necho\n")

    assert main(["submit", "a.sh", "--image", "busybox", "--dry-run"]) == 0

    assert "warning: a.sh, line 2: lines with #" in capsys.readouterr().err


def test_a_comment_on_money_is_no_mark(folder, planned):
    (folder / "a.sh").write_text("#!/bin/sh\n#$5 a month\n# a batch\necho\n")

    planned("a.sh", "--image", "busybox")


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (["--", "python train.py"], "the command is one word with spaces; for a shell: -- sh -c 'python train.py'"),
        (["--each", "seed=1-3"], "seed=1-3 is one value; a range is seed=1..3"),
    ],
)
def test_a_probable_mistake_has_a_warning(capsys, words, warning):
    assert main(["submit", "busybox", "--dry-run", *words]) == 0

    assert capsys.readouterr().err.startswith(f"batchq: warning: {warning}\n")


def test_a_script_with_another_ending_is_not_taken_for_an_image(folder, refused):
    (folder / "fit.R").write_text("print(1)\n")

    refusal = "batchq: fit.R counts as an image: a script ends in .sh, .bash or .py, or is ./fit.R\n"
    assert refused("fit.R", "--image", "r-base") == refusal
    assert refused("fit.R", "--", "true") == refusal
