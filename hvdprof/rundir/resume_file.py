"""What ``--resume`` starts again, as it was given, by this version or an older one.

``manifest.json`` has the same settings with secrets masked. The file is readable by its owner
alone, and sealed with a key of this user: a run that another user wrote or changed is resumed only
after a question. Reports and tables never read it.

History of the schema:
    1   first version
    2   settings hold no copies of options

Schema 1 had most options twice, as they were given and copied into the settings; the first runs had
the copies alone. This is the one place that knows it: all that read a run read one shape.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.json_codec import JsonObject, decode, parse_json
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.masking import mask_command, mask_value
from hvdprof.rundir.regular_file import checked_inside, read_regular, shown_name
from hvdprof.rundir.secret_forms import MASK
from hvdprof.rundir.trusted_file import is_sealed, seal
from hvdprof.rundir.written_file import write_whole

_COPIED = ("num_steps", "timeout_s", "stall_warn_s", "stall_kill_s", "light")
_COPIED_OF_MODELS = (
    *("scaling", "attribution", "fusion_threshold_mb", "cycle_time_ms", "cache_capacity"),
    *("data_dir", "seed"),
)
"""Those that a script has, too, but as values without effect."""

_COPIED_OF_SCRIPTS = ("num_timeline_steps", "trace")
_RENAMED = {"discovery_script": "host_discovery_script", "wait_s": "elastic_timeout_s"}
RESUME_SCHEMA_VERSION = 2


def separated(settings: JsonObject, options: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Settings and options of schema 1 as those of schema 2.

    Raises:
        ValueError: A part of the settings is no object.
    """
    resolved = dict(settings)
    copied = {name: resolved.pop(name) for name in _COPIED if name in resolved}
    of_models = {name: resolved.pop(name) for name in _COPIED_OF_MODELS if name in resolved}
    variables = resolved.pop("variables", None)
    is_chosen = resolved.pop("threads_by_cores", None) is False
    if resolved.get("script") is None:
        copied |= of_models
    else:
        script = resolved["script"] = dict(_object(resolved["script"], "script"))
        copied |= {name: script.pop(name) for name in _COPIED_OF_SCRIPTS if name in script}
        is_chosen = script.pop("sets_threads", False) is True
        variables = script.pop("variables", None)
        elastic = dict(_object(script.pop("elastic", None) or {}, "elastic"))
        if "network_interface" in elastic:
            script["network_interface"] = elastic.pop("network_interface")
        copied |= {_RENAMED.get(name, name): value for name, value in elastic.items()}
    if variables:
        pairs = _object(variables, "variables").items()
        copied["env"] = [f"{name}={value}" for name, value in pairs]
    if is_chosen and "num_threads" in resolved:
        copied["num_threads"] = resolved["num_threads"]
    whole = copied | options
    # It was given relative to a folder that is another one by now.
    if copied.get("data_dir"):
        whole["data_dir"] = copied["data_dir"]
    return resolved, whole


def _object(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError(f"settings.{name} is no object")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeFile:
    """Settings and options of a run as they were given; ``seal`` is this user's for both."""

    schema_version: int
    settings: JsonObject
    options: JsonObject
    seal: str

    @property
    def is_own(self) -> bool:
        """Whether this user's hvdprof wrote it, and it was not changed since."""
        return is_sealed(_sealed(self.settings, self.options), self.seal)

    def current(self) -> tuple[JsonObject, JsonObject]:
        """Settings and options as this version records them.

        Raises:
            ValueError: Those of an earlier version are damaged.
        """
        if self.schema_version > 1:
            return self.settings, self.options
        return separated(self.settings, self.options)


def write_resume_file(paths: RunPaths, settings: JsonObject, options: JsonObject) -> None:
    """Write the file into a run directory, unless it says the same already.

    Raises:
        StorageError: It could not be written.
    """
    content = {
        "schema_version": RESUME_SCHEMA_VERSION,
        "settings": settings,
        "options": options,
        "seal": seal(_sealed(settings, options)),
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    try:
        # A full disk has no room for what is there already.
        is_there = read_regular(paths.resume) == text
    except (OSError, ValueError):
        is_there = False
    if not is_there:
        write_whole(paths.resume, text, mode=0o600)


def read_resume_file(folder: Path) -> ResumeFile | None:
    """The file of a run directory; None where there is none, as in runs of earlier versions.

    Raises:
        UnreadableInputError: It cannot be read, is damaged, or a newer hvdprof wrote it.
    """
    path = RunPaths(folder).resume
    try:
        content = parse_json(read_regular(checked_inside(folder, path)))
        found = decode(ResumeFile, content, path.name)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableInputError(f"{shown_name(path)} cannot be read: {reason}.") from error
    if found.schema_version > RESUME_SCHEMA_VERSION:
        raise UnreadableInputError(
            f"{shown_name(path)} has schema version {found.schema_version}; "
            f"this hvdprof reads up to {RESUME_SCHEMA_VERSION}.",
            hint="pip install --upgrade hvdprof",
        )
    return found


def masked_settings(settings: Mapping[str, object]) -> JsonObject:
    """Settings or options of a run without the secrets of its command, variables and addresses."""
    return {name: _masked(name, value) for name, value in settings.items()}


def is_masked(settings: JsonObject, options: JsonObject) -> bool:
    """Whether secrets of them were replaced, so that they start something else."""
    return MASK in json.dumps([settings, options])


def _masked(name: str, value: object) -> object:
    if isinstance(value, Mapping):
        return masked_settings(value)
    if isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value):
            return mask_command(value)
        return [_masked(name, item) for item in value]
    return mask_value(name, value) if isinstance(value, str) else value


def _sealed(settings: JsonObject, options: JsonObject) -> bytes:
    # Tuples become lists: what is sealed is what is read again.
    return json.dumps([settings, options], sort_keys=True, ensure_ascii=True).encode()
