"""Design tools for CHARMIE: geometry of its linear actuators, loads of joints and actuators, choice of springs."""

from nodes.research.studies.charmie.actuator_loads import efforts_over as efforts_over
from nodes.research.studies.charmie.actuator_loads import load_report as load_report
from nodes.research.studies.charmie.actuator_loads import posed as posed
from nodes.research.studies.charmie.spring_study import tune_springs as tune_springs
from robots.charmie.geometry import length_of_lift as length_of_lift
from robots.charmie.geometry import lift_of_length as lift_of_length
from robots.charmie.loads import charmie_loads as charmie_loads
from robots.charmie.motions import squat_and_lean as squat_and_lean
from robots.charmie.parameters import read_parameters as read_parameters
from robots.charmie.point_clouds import point_clouds as point_clouds
