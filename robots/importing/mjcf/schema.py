"""Tags and attributes of MJCF, from the schema of MuJoCo 4.0, for the elements that the import reads."""

from __future__ import annotations

# {parent tag: tags of its child elements}
CHILDREN = {
    "mujoco": (
        "actuator asset compiler contact custom default deformable equality extension keyframe option "
        "sensor size statistic tendon visual worldbody"
    ),
    "option": "flag",
    "default": (
        "adhesion camera cylinder damper dcmotor default equality general geom intvelocity joint light "
        "material mesh motor muscle orientation pair pid position site tendon texture velocity"
    ),
    "asset": "hfield material mesh model skin texture",
    "body": ("attach body camera composite flexcomp frame freejoint geom inertial joint light plugin replicate site"),
    "contact": "exclude pair",
    "tendon": "fixed spatial",
    "fixed": "joint",
    "spatial": "geom pulley site",
    "equality": "connect flex flexstrain joint tendon weld",
    "actuator": (
        "adhesion cylinder damper dcmotor general intvelocity motor muscle orientation pid plugin position velocity"
    ),
    "keyframe": "key",
}
# {(parent tag, tag): attributes}; <worldbody> counts as a <body>
ATTRIBUTES = {
    ("body", "body"): "axisangle childclass euler fuse gravcomp mocap name pos quat simple sleep user xyaxes zaxis",
    ("mujoco", "compiler"): (
        "alignfree angle assetdir autolimits balanceinertia boundinertia boundmass conflict coordinate "
        "discardvisual eulerseq fitaabb fusestatic inertiafromgeom inertiagrouprange meshdir passthrough "
        "savecanonical savecompiled saveinertial settotalmass strippath texturedir usethread"
    ),
    ("mujoco", "default"): "class",
    ("mujoco", "option"): (
        "actuatorgroupdisable ccd_iterations ccd_tolerance cone density gravity impratio integrator "
        "iterations jacobian ls_iterations ls_tolerance magnetic noslip_iterations noslip_tolerance "
        "o_friction o_margin o_solimp o_solref sdf_initpoints sdf_iterations sleep_tolerance solver timestep "
        "tolerance viscosity wind"
    ),
    ("option", "flag"): (
        "actuation autoreset clampctrl constraint contact damper diagexact energy equality eulerdamp "
        "filterparent frictionloss fwdinv gravity invdiscrete ipc island limit midphase multiccd nativeccd "
        "override refsafe sensor sleep speculative spring warmstart"
    ),
    ("default", "adhesion"): "ctrlrange delay forcelimited forcerange gain group interp nsample user",
    ("default", "cylinder"): (
        "area armature bias cranklength ctrllimited ctrlrange damping delay diameter forcelimited forcerange "
        "gear group interp nsample timeconst user"
    ),
    ("default", "damper"): (
        "armature cranklength ctrlrange damping delay forcelimited forcerange gear group interp kv nsample user"
    ),
    ("default", "dcmotor"): (
        "armature cogging controller cranklength ctrllimited ctrlrange damping delay gear group inductance "
        "input interp lugre motorconst nominal nsample resistance saturation thermal user"
    ),
    ("default", "equality"): "active solimp solref",
    ("default", "general"): (
        "actdim actearly actlimited actrange armature biasprm biastype cranklength ctrllimited ctrlrange "
        "damping delay dynprm dyntype ffrange forcelimited forcerange gainprm gaintype gear group "
        "inheritrange input interp nsample user velrange"
    ),
    ("default", "geom"): (
        "adhesion axisangle castshadow conaffinity condim contype density euler fitscale fluidcoef fluidshape "
        "friction fromto gap group hfield margin mass material mesh pos priority quat rgba shellinertia size "
        "solimp solmix solref surfacevel type user xyaxes zaxis"
    ),
    ("default", "intvelocity"): (
        "actlimited actrange armature cranklength ctrllimited ctrlrange damping dampratio delay forcelimited "
        "forcerange gear group inheritrange interp kp kv nsample user"
    ),
    ("default", "joint"): (
        "actuatorfrclimited actuatorfrcrange actuatorgravcomp armature axis damping frictionloss group "
        "limited margin pos range ref solimpfriction solimplimit solreffriction solreflimit springdamper "
        "springref springyield stiffness type user"
    ),
    ("default", "material"): (
        "emission metallic reflectance rgba roughness shininess specular texrepeat texture texuniform"
    ),
    ("default", "mesh"): "inertia maxhullvert scale",
    ("default", "motor"): (
        "armature cranklength ctrllimited ctrlrange damping delay forcelimited forcerange gear group interp "
        "nsample user"
    ),
    ("default", "muscle"): (
        "armature cranklength ctrllimited ctrlrange damping delay force forcelimited forcerange fpmax fvmax "
        "gear group interp lmax lmin nsample range scale timeconst user vmax"
    ),
    ("default", "orientation"): (
        "ctrlrange dampratio delay forcelimited forcerange group input interp kp kv nsample user"
    ),
    ("default", "pair"): "adhesion condim friction gap margin solimp solref solreffriction",
    ("default", "pid"): (
        "armature cranklength ctrllimited ctrlrange damping dampratio delay ffrange forcelimited forcerange "
        "gear group imax inheritrange input interp ki kp kv nsample posrange slewmax user velrange"
    ),
    ("default", "position"): (
        "armature cranklength ctrllimited ctrlrange damping dampratio delay forcelimited forcerange gear "
        "group inheritrange interp kp kv nsample timeconst user"
    ),
    ("default", "tendon"): (
        "actuatorfrclimited actuatorfrcrange armature damping frictionloss group limited margin material "
        "range rgba solimpfriction solimplimit solreffriction solreflimit springlength springyield stiffness "
        "user width"
    ),
    ("default", "velocity"): (
        "armature cranklength ctrllimited ctrlrange damping delay forcelimited forcerange gear group interp "
        "kv nsample user"
    ),
    ("asset", "material"): (
        "class emission metallic name reflectance rgba roughness shininess specular texrepeat texture texuniform"
    ),
    ("asset", "mesh"): (
        "builtin class content_type face file inertia material maxhullvert name normal params refpos refquat "
        "scale smoothnormal texcoord vertex"
    ),
    ("body", "freejoint"): "align group name",
    ("body", "geom"): (
        "adhesion axisangle castshadow class conaffinity condim contype density euler fitscale fluidcoef "
        "fluidshape friction fromto gap group hfield margin mass material mesh name pos priority quat rgba "
        "shellinertia size solimp solmix solref surfacevel type user xyaxes zaxis"
    ),
    ("body", "inertial"): "axisangle diaginertia euler fullinertia mass pos quat xyaxes zaxis",
    ("body", "joint"): (
        "actuatorfrclimited actuatorfrcrange actuatorgravcomp armature axis class damping frictionloss group "
        "limited margin name pos range ref solimpfriction solimplimit solreffriction solreflimit springdamper "
        "springref springyield stiffness type user"
    ),
    ("contact", "exclude"): "body1 body2 name",
    ("contact", "pair"): "adhesion class condim friction gap geom1 geom2 margin name solimp solref solreffriction",
    ("tendon", "fixed"): (
        "actuatorfrclimited actuatorfrcrange armature class damping frictionloss group limited margin name "
        "range solimpfriction solimplimit solreffriction solreflimit springlength springyield stiffness user"
    ),
    ("tendon", "spatial"): (
        "actuatorfrclimited actuatorfrcrange armature class damping frictionloss group limited margin "
        "material name range rgba solimpfriction solimplimit solreffriction solreflimit springlength "
        "springyield stiffness user width"
    ),
    ("fixed", "joint"): "coef joint",
    ("spatial", "geom"): "geom sidesite",
    ("spatial", "pulley"): "divisor",
    ("spatial", "site"): "site",
    ("equality", "connect"): "active anchor body1 body2 class name site1 site2 solimp solref",
    ("equality", "flex"): "active class flex name solimp solref",
    ("equality", "flexstrain"): "active cell class flex name solimp solref",
    ("equality", "joint"): "active class joint1 joint2 name polycoef solimp solref",
    ("equality", "tendon"): "active class name polycoef solimp solref tendon1 tendon2",
    ("equality", "weld"): "active anchor body1 body2 class name relpose site1 site2 solimp solref torquescale",
    ("actuator", "adhesion"): "body class ctrlrange delay forcelimited forcerange gain group interp name nsample user",
    ("actuator", "cylinder"): (
        "area armature bias class cranklength cranksite ctrllimited ctrlrange damping delay diameter "
        "forcelimited forcerange gear group interp joint jointinparent lengthrange name nsample refsite site "
        "slidersite tendon timeconst user"
    ),
    ("actuator", "damper"): (
        "armature class cranklength cranksite ctrlrange damping delay forcelimited forcerange gear group "
        "interp joint jointinparent kv lengthrange name nsample refsite site slidersite tendon user"
    ),
    ("actuator", "dcmotor"): (
        "armature class cogging controller cranklength cranksite ctrllimited ctrlrange damping delay gear "
        "group inductance input interp joint jointinparent lengthrange lugre motorconst name nominal nsample "
        "refsite resistance saturation site slidersite tendon thermal user"
    ),
    ("actuator", "general"): (
        "actdim actearly actlimited actrange armature biasprm biastype body class cranklength cranksite "
        "ctrllimited ctrlrange damping delay dynprm dyntype ffrange forcelimited forcerange gainprm gaintype "
        "gear group inheritrange input interp joint jointinparent lengthrange name nsample refsite site "
        "slidersite tendon user velrange"
    ),
    ("actuator", "intvelocity"): (
        "actlimited actrange armature class cranklength cranksite ctrllimited ctrlrange damping dampratio "
        "delay forcelimited forcerange gear group inheritrange interp joint jointinparent kp kv lengthrange "
        "name nsample refsite site slidersite tendon user"
    ),
    ("actuator", "motor"): (
        "armature class cranklength cranksite ctrllimited ctrlrange damping delay forcelimited forcerange "
        "gear group interp joint jointinparent lengthrange name nsample refsite site slidersite tendon user"
    ),
    ("actuator", "muscle"): (
        "armature class cranklength cranksite ctrllimited ctrlrange damping delay force forcelimited "
        "forcerange fpmax fvmax gear group interp joint jointinparent lengthrange lmax lmin name nsample "
        "range scale slidersite tausmooth tendon timeconst user vmax"
    ),
    ("actuator", "orientation"): (
        "class ctrlrange dampratio delay forcelimited forcerange group input interp joint kp kv name nsample "
        "refsite site user"
    ),
    ("actuator", "pid"): (
        "armature class cranklength cranksite ctrllimited ctrlrange damping dampratio delay ffrange "
        "forcelimited forcerange gear group imax inheritrange input interp joint jointinparent ki kp kv "
        "lengthrange name nsample posrange refsite site slewmax slidersite tendon user velrange"
    ),
    ("actuator", "position"): (
        "armature class cranklength cranksite ctrllimited ctrlrange damping dampratio delay forcelimited "
        "forcerange gear group inheritrange interp joint jointinparent kp kv lengthrange name nsample refsite "
        "site slidersite tendon timeconst user"
    ),
    ("actuator", "velocity"): (
        "armature class cranklength cranksite ctrllimited ctrlrange damping delay forcelimited forcerange "
        "gear group interp joint jointinparent kv lengthrange name nsample refsite site slidersite tendon "
        "user"
    ),
    ("keyframe", "key"): "act ctrl mpos mquat name plastic qpos qvel time",
}
BOOLEAN, OR_AUTO = "false true", "auto false true"
# {attribute: its values} of attributes whose values are words; the attributes of <flag> are ENABLING
WORDS = {
    "active": BOOLEAN,
    "actearly": BOOLEAN,
    "actlimited": OR_AUTO,
    "actuatorfrclimited": OR_AUTO,
    "actuatorgravcomp": BOOLEAN,
    "align": OR_AUTO,
    "alignfree": BOOLEAN,
    "angle": "degree radian",
    "autolimits": BOOLEAN,
    "balanceinertia": BOOLEAN,
    "biastype": "affine dcmotor muscle none user",
    "condim": "1 3 4 6",
    "cone": "elliptic pyramidal",
    "ctrllimited": OR_AUTO,
    "discardvisual": BOOLEAN,
    "fitaabb": BOOLEAN,
    "fluidshape": "ellipsoid none",
    "forcelimited": OR_AUTO,
    "fusestatic": BOOLEAN,
    "inertiafromgeom": OR_AUTO,
    "integrator": "Euler RK4 implicit implicitfast",
    "jacobian": "auto dense sparse",
    "limited": OR_AUTO,
    "mocap": BOOLEAN,
    "shellinertia": BOOLEAN,
    "solver": "CG Newton PGS",
    "strippath": BOOLEAN,
    "usethread": BOOLEAN,
}
ENABLING = "disable enable"
# {tag: attributes that earlier versions of MuJoCo read}
FORMER = {
    "compiler": "convexhull exactmeshinertia",
    "option": "apirate collision mpr_iterations mpr_tolerance",
    "flag": "passive sensornoise",
}
