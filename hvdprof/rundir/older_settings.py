"""Settings of schema 1 of manifest and resume file, as this version records them.

Schema 1 had most options twice, as they were given and copied into the settings; the first runs had
the copies alone. This is the one place that knows it: all that read a run read one shape.
"""

from collections.abc import Mapping

from hvdprof.rundir.json_codec import JsonObject

_COPIED = ("num_steps", "timeout_s", "stall_warn_s", "stall_kill_s", "light")
_COPIED_OF_MODELS = (
    *("scaling", "attribution", "fusion_threshold_mb", "cycle_time_ms", "cache_capacity"),
    *("data_dir", "seed"),
)
"""Those that a script has, too, but as values without effect."""

_COPIED_OF_SCRIPTS = ("num_timeline_steps", "trace")

_RENAMED = {"discovery_script": "host_discovery_script", "wait_s": "elastic_timeout_s"}


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
