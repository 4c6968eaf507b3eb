"""An audit inside a page: a model and inputs that a reader wrote, the finding and the whole report as text."""

import io
import traceback
from contextlib import redirect_stdout

import without_jax

without_jax.install()

import equitangents as et  # noqa: E402


def audited(source: str, group: str) -> dict[str, str]:
    """Run `source`, which defines `model` and `x`, and audit the one on the other.

    Returns:
        "sentence": the finding; "html": the report; or "error": what went wrong. "printed": what `source` printed.
    """
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            names: dict[str, object] = {"__name__": "__main__"}
            exec(compile(source, "model.py", "exec"), names)
            missing = [name for name in ("model", "x") if name not in names]
            if missing:
                return {"error": f"the code defines no {' and no '.join(missing)}", "printed": printed.getvalue()}
            options = {key: names[key] for key in ("y", "output_action", "inputs", "outputs") if key in names}
            report = et.audit(names["model"], group, names["x"], effort="quick", **options)
            return {"sentence": report.summary(), "html": report.html(), "printed": printed.getvalue()}
    except et.EquitangentsError as error:
        return {"error": str(error), "printed": printed.getvalue()}
    except Exception:
        return {"error": traceback.format_exc(limit=-3), "printed": printed.getvalue()}
