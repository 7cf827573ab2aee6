"""What is written as JSON is what the schema says: nothing missing, nothing that it omits."""

import io
import json

import pytest
from jsonschema import Draft202012Validator

from hvdprof import api
from hvdprof.report.answers.files import files_answer
from hvdprof.report.answers.json_schema import json_schema
from hvdprof.report.document.json_report import json_object
from tests.builders.finished_analysis import analysis, failed, full_analysis, skipped
from tests.builders.recorded_runs import unpacked


def closed(schema):
    """The schema without room for further keys: a key that it does not name is an error here."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    is_object = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
    return inner | ({"additionalProperties": False} if is_object else {})


def problems(result, kind):
    schema = closed(json_schema())
    schema = {key: value for key, value in schema.items() if key != "oneOf"}
    validator = Draft202012Validator(schema | {"$ref": f"#/$defs/{kind}"})
    errors = validator.iter_errors(json.loads(json.dumps(result)))
    return [f"{'/'.join(map(str, one.absolute_path))}: {one.message[:200]}" for one in errors]


def test_it_is_a_schema():
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.heavy
def test_a_finished_analysis_is_valid():
    finished = full_analysis()
    assert problems(json_object(finished), "run_analysis") == []
    assert Draft202012Validator(json_schema()).is_valid(json_object(finished))
    lacking = analysis(skipped=(skipped("no"),), failed=(failed(),), warnings=("w",))
    assert problems(json_object(lacking), "run_analysis") == []


def test_another_type_a_missing_and_an_unknown_key_are_found():
    result = json.loads(json.dumps(json_object(full_analysis())))
    result["verdict"]["efficiency"] = "84 %"
    del result["scaling"][0]["np"]
    result["scaling"][0]["ranks"] = 2
    found = problems(result, "run_analysis")
    assert len(found) == 3
    assert not Draft202012Validator(json_schema()).is_valid(result)


def test_keys_that_later_versions_add_are_valid():
    result = json_object(full_analysis()) | {"added": 1}
    assert Draft202012Validator(json_schema()).is_valid(result)


def test_a_result_of_another_version_is_not_valid():
    result = json_object(full_analysis()) | {"schema_version": 1}
    assert not Draft202012Validator(json_schema()).is_valid(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["bench-adasum", "ddp-hang", "horovod-failed", "horovod-evaluated", "ddp-code-lines"]
)
def test_a_recorded_run_is_valid(tmp_path, name):
    finished = api.analyze_run(api.load_run(unpacked(name, tmp_path)))
    assert problems(json_object(finished), "run_analysis") == []


def of_files(*paths):
    stream = io.StringIO()
    files_answer(api.analyze_files(api.load_run(list(paths)))).write("json", stream)
    return json.loads(stream.getvalue())


@pytest.mark.heavy
def test_files_are_valid(tmp_path):
    for np, rate in ((1, 612.0), (4, 1_960.0)):
        (tmp_path / f"{np}.txt").write_text(f"Total img/sec on {np} CPU(s): {rate} +-1.0\n")
    (tmp_path / "other.txt").write_text("no number here\n")
    result = of_files(tmp_path)
    assert result["tables"]
    assert problems(result, "files_analysis") == []
    assert Draft202012Validator(json_schema()).is_valid(result)
