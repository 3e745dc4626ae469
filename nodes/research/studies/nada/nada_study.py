"""`armswing reproduce nada`: fuzzy constraint stabilization of three mechanisms, compared with other stabilizers.

[NadaBayoumi2024]
"""

from __future__ import annotations

from nodes.research.studies.framework import figures, surfaces
from nodes.research.studies.framework import fuzzy_pages as shared
from nodes.research.studies.framework.fuzzy_pages import Columns
from nodes.research.studies.framework.methods import DIRECT, DIRECT_INSIDE, FIXED, FLC3, ONE_CALL, SAMPLED, b3
from nodes.research.studies.framework.runs import Run
from nodes.research.studies.framework.study import Assumption, Plot, Section, Study, pace
from nodes.research.studies.nada.cost import cost_section
from nodes.research.studies.nada.nada_claims import claims
from nodes.research.studies.nada.nada_runs import REACH, SPANS, STEPS, Runs

KINDS = ("I", "II", "III")


def study(quick: bool = False, spans: str = "") -> Study:
    """Definition of the study: its runs, claims and page.

    quick  whether to use the shorter runs of a quick study
    spans  key of SPANS, such as "tiny" for tests; if `spans` is not "", `quick` has no effect on the runs
    """
    runs = Runs(SPANS[spans or ("quick" if quick else "full")])
    return Study(
        name="nada",
        title="Fuzzy constraint stabilization: Nada and Bayoumi, run again",
        paper="A. Nada, M. Bayoumi: Development of a constraint stabilization method of multibody systems based on "
        "fuzzy logic control. Multibody System Dynamics 61 (2024) 233–265. doi:10.1007/s11044-023-09921-9",
        summary="The paper stabilizes constraints by a fuzzy controller with 25 rules and compares it with direct "
        "correction and Baumgarte's method on a triple pendulum, a rotary pendulum and an epicyclic gear train. This "
        "page runs all of it again. Its figures did not reach us, so that claims are taken from its text.",
        readings=READINGS,
        assumptions=ASSUMPTIONS,
        runs=runs.all,
        claims=claims(runs),
        sections=sections(runs),
        measured=runs.measured,
        longest=Runs(SPANS["full"]).all,
        quick=quick,
        **pace(quick, spans),
    )


READINGS = shared.readings("δt", " Then δt changes the motion only through gains that are computed from it.")

ASSUMPTIONS = (
    shared.SIMULATED_TIME,
    shared.gaussians("0.2123", "±1"),
    Assumption("trapezoids: plateau", "0.2123 of a universe of ±1", "not stated"),
    shared.conjunction("the text names minimum and product; the surface is drawn for both"),
    shared.clamped("unclamped triangles fire no rule, "),
    Assumption(
        "rule table", "clip(i + j) of five sets each", "the paper's table did not reach us; Man's is the same law"
    ),
    Assumption(
        "rotary pendulum: masses, lengths",
        "arm 0.095 kg, 0.085 m; pendulum 0.024 kg, 0.129 m; uniform rods",
        "not in the text; figures of a device of that class",
    ),
    Assumption(
        "rotary pendulum: Euler angles",
        "first body's z axis horizontal",
        "as printed the ZXZ angles are singular at all times",
    ),
    Assumption("rotary pendulum: start", "170 degrees, at rest", "the paper's validation run"),
    Assumption("gear train: tooth counts", "sun 24, planets 18", "not stated"),
    Assumption("gear train: masses", "ring 1, sun 0.2, arm 0.4, pins 0.02, planets 0.1 kg", "not stated"),
    Assumption("triple pendulum: large swing", "horizontal, at rest", "the paper says large; no angle is given"),
    Assumption("triple pendulum: small swing", "5 degrees, at rest", "the paper says small; no angle is given"),
)


def sections(runs: Runs) -> tuple[Section, ...]:
    """Sections of the study's page that follow the table of claims."""
    return (
        controller_section(),
        triple_section(runs),
        rotary_section(runs),
        direct_section(runs),
        gear_section(runs),
        cost_section(runs),
    )


def controller_section() -> Section:
    """Section of the study's page with membership functions and control surfaces."""
    return Section(
        "controller",
        "The controller",
        "Two inputs, position and velocity of a constraint, each in five sets; 25 rules; a weighted mean. With "
        "triangles and product it is a saturated sum of both inputs. Trapezoids have a dead zone: small violations are "
        "not corrected at all.",
        (
            shared.memberships_plot(
                KINDS, "Membership functions of the three sets (the paper's figures 7 to 9).", (10.5, 3.6)
            ),
            shared.surfaces_plot(
                KINDS,
                "Control surface of the three sets with product and with minimum (the paper's figure 10 shows set I).",
                (10.5, 6.4),
            ),
            Plot(
                "sections",
                "The surface along the position axis. The slope at zero is the gain for small violations.",
                lambda results, figure: surfaces.sections(figure.subplots(), KINDS),
                size=(8.0, 4.6),
            ),
        ),
    )


def triple_section(runs: Runs) -> Section:
    """Section of the study's page with figures 13 to 15 of the paper."""
    methods = (DIRECT, DIRECT_INSIDE, FLC3, SAMPLED)
    named = [(method.label, runs.triple(method)) for method in methods]
    bounded = list(runs.bounded().items())
    return Section(
        "triple",
        "Triple pendulum",
        "Three bars of 0.3 m fall from the horizontal; the motion is chaotic, so that paths differ between methods "
        "after some seconds even where all constraints hold.",
        (
            shared.tips_plot(
                "Path of the tip in the first 30 s under RK4 at 1 ms (the paper's figures 14, 15). Fixed-step reading.",
                named,
                REACH,
                (13.0, 3.9),
            ),
            shared.violations_plot(
                "direct",
                "Direct correction fed back to the integrator, and left inside the right-hand side, beside the fuzzy "
                "methods. RK4, fixed step 1 ms.",
                {"fixed step, δt = 1 ms": named},
            ),
            shared.violations_plot(
                "triple",
                "Set III on the triple pendulum in both readings of δt, and with the gains of the paper's recipe "
                "(Kp = 1/|Φ|, Kd = 1/|dΦ/dt|, Ku = 100 Kp with the bounds it names).",
                {"set III": bounded},
            ),
        ),
    )


def rotary_columns(runs: Runs, which: str) -> Columns:
    """Columns of a plot, {title: (label, run) of each curve}.

    There is one column for each fixed step size, and one column for runs that are a single call of an adaptive solver.

    which  name of the method of `Runs` that returns the runs of a column, such as "baumgarte"
    """
    columns: dict[str, list[tuple[str, Run]]] = {}
    for dt in STEPS:
        columns[f"{FIXED}, δt = {dt * 1e3:g} ms"] = list(getattr(runs, which)(FIXED, dt).items())
    if which == "baumgarte":
        named = [(f"{b3(dt).label}, δt = {dt * 1e3:g} ms", runs.rotary(b3(dt), ONE_CALL, dt)) for dt in STEPS]
        first = list(runs.baumgarte(ONE_CALL).items())[:2]
        columns[ONE_CALL] = [*first, *named]
    else:
        columns[ONE_CALL] = list(getattr(runs, which)(ONE_CALL).items())
    return columns


def rotary_section(runs: Runs) -> Section:
    """Section of the study's page with figures 17 to 26 of the paper."""
    bare: Columns = {reading: list(runs.unstabilized(reading).items()) for reading in (FIXED, ONE_CALL)}
    titled: Columns = {f"{FIXED}, δt = 1 ms": bare[FIXED], ONE_CALL: bare[ONE_CALL]}
    baumgarte, compared = rotary_columns(runs, "baumgarte"), rotary_columns(runs, "compared")
    ninth = {title: named for title, named in compared.items() if "1 ms" in title or title == ONE_CALL}
    reference, fuzzy = runs.reference()
    both = [("reference, tolerances 10⁻¹⁰", reference), (FLC3.label, fuzzy)]
    wide = (13.0, 6.2)
    return Section(
        "rotary",
        "Rotary pendulum",
        "The pendulum is released at 170 degrees and swings about an arm that is free to turn.",
        (
            shared.violations_plot(
                "unstabilized",
                "No stabilization, all integrators (figure 17), both readings of δt.",
                titled,
            ),
            shared.violations_plot(
                "baumgarte",
                "Baumgarte's method with three sets of gains (figures 18 and 19): three fixed steps, and one adaptive "
                "call, where δt acts through the gains alone.",
                baumgarte,
                wide,
            ),
            shared.violations_plot(
                "compared",
                "Direct correction, Baumgarte, the three fuzzy sets, and our sampled law and projection (figures 20 "
                "and 21), both readings of δt.",
                compared,
                wide,
            ),
            Plot(
                "ninth",
                "The rows of the pendulum's joint, to which the ninth constraint belongs (figures 22 and 23); the "
                "ninth itself stays at rounding with our axes. In the adaptive call Baumgarte has the gains of 50 ms.",
                lambda results, figure: figures.watched_curves(
                    results,
                    figure,
                    "rows pendulum",
                    ninth,
                    (figures.PHI + " of the joint (m, 1)", figures.PHIDOT + " of the joint (m/s, 1/s)"),
                ),
            ),
            Plot(
                "reference",
                "Joint angles of set III in one adaptive call with outputs every 50 ms, and of a reference with "
                "tolerances of 10⁻¹⁰ (figures 25 and 26).",
                lambda results, figure: figures.motions(
                    results, figure, "joints", both, ("arm (rad)", "pendulum (rad)"), (0, 1)
                ),
                size=(10.5, 5.0),
            ),
        ),
    )


def direct_section(runs: Runs) -> Section:
    """Section on runs of the rotary pendulum with the stabilizer "direct correction" of the paper."""
    columns = rotary_columns(runs, "inside")
    return Section(
        "direct-correction",
        "Direct correction: fed back or not",
        "The corrected state either replaces the integrator's own, or it is used to evaluate the accelerations and "
        "then thrown away. Only in the second is there something left to grow.",
        (
            shared.violations_plot(
                "direct_rotary",
                "Direct correction on the rotary pendulum, fed back and inside the right-hand side, both readings "
                "of δt.",
                columns,
                (13.0, 6.2),
            ),
        ),
    )


def gear_section(runs: Runs) -> Section:
    """Section of the study's page with figures 29 to 32 of the paper."""
    columns: Columns = {
        f"{FIXED}, δt = 1 ms": list(runs.gears(FIXED).items()),
        ONE_CALL: list(runs.gears(ONE_CALL).items()),
    }
    return Section(
        "gears",
        "Epicyclic gear train",
        "Seven bodies in Euler parameters, 45 holonomic and 3 rolling constraints; 0.1 N m turn the arm from rest, "
        "ever faster. Tooth counts and masses are assumed.",
        (
            Plot(
                "gear_rows",
                "The unit-norm constraints of the Euler parameters (figures 29 and 30).",
                lambda results, figure: figures.watched_curves(
                    results,
                    figure,
                    "unit rows",
                    columns,
                    (figures.PHI + ", unit norms (1)", figures.PHIDOT + ", unit norms (1/s)"),
                ),
            ),
            Plot(
                "gear_rolling",
                "The nonholonomic rolling constraints (figure 31), in tooth counts times rad/s.",
                lambda results, figure: figures.watched_curves(
                    results, figure, "rolling rows", columns, (figures.PHIDOT + ", rolling (rad/s)",)
                ),
                size=(10.5, 3.8),
            ),
            shared.violations_plot(
                "gear",
                "All constraints of the gear train (figure 32), both readings of δt.",
                columns,
            ),
        ),
    )
