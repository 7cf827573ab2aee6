import json

import pytest

from hvdprof.api import machine
from tests.builders.survey import make_survey


@pytest.mark.parametrize("ready", [True, False])
def test_the_report_of_a_machine(ready: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    survey = make_survey() if ready else make_survey(horovod=None)
    monkeypatch.setattr(machine, "take_survey", lambda: survey)
    report = machine.check_machine()
    assert report.can_bench == ready
    assert any(finding.stops_bench for finding in report.findings) != ready
    assert json.loads(json.dumps(report.facts))["python_version"] == survey.python_version
