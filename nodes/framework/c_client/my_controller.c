/* Holds the arm of the rotary pendulum at an angle, with a spring and a damper: my_controller.py in C. */
#include "armswing_client.h"

#include <math.h>

static const char *const SUBSCRIBES[] = {"state", NULL};
static const char *const PUBLISHES[] = {"command", NULL};

enum { ANGLE, STIFFNESS, DAMPING };
static armswing_parameter parameters[] = {
    {"angle_deg", 30.0, "deg", -360.0, 360.0},
    {"stiffness", 0.02, "N m/rad", 0.0, HUGE_VAL},
    {"damping", 0.003, "N m s/rad", 0.0, HUGE_VAL},
    {0},
};

static void on_message(armswing_client *client, const armswing_message *message) {
    static const char *const actuators[] = {"arm"};
    static armswing_state state;
    double error, effort;
    int arm;
    if (armswing_read_state(message, &state) != 0) return;
    if ((arm = armswing_index(&state, "arm")) < 0) {
        armswing_fail(client, "the robot has no joint 'arm'");
        return;
    }
    error = parameters[ANGLE].value * (3.141592653589793 / 180.0) - state.position[arm]; /* rad */
    armswing_plot(client, "error", error);
    effort = parameters[STIFFNESS].value * error - parameters[DAMPING].value * state.velocity[arm];
    armswing_command(client, "command", "effort", 1, actuators, &effort, state.seq);
}

int main(int count, char **arguments) {
    armswing_node node = {0};
    node.name = "my_controller";
    node.subscribes = SUBSCRIBES, node.publishes = PUBLISHES;
    node.parameters = parameters;
    node.on_message = on_message;
    return armswing_main(count, arguments, &node);
}
