/* Client of armswing in C99: a node that subscribes, commands, takes lockstep turns, has parameters and a status.
 *
 * Needs POSIX and libc, no other library: it speaks ZMTP 3.0 over the ipc sockets of one computer and MessagePack, as
 * docs/wire.md specifies. Compile armswing_client.c together with the node:
 *
 *   cc -std=c99 -O2 -o my_controller my_controller.c armswing_client.c -lm
 *
 * In a launch on several computers, connections to the others are encrypted with this user's keys. This needs
 * armswing_curve.c and libsodium:
 *
 *   cc -std=c99 -O2 -DARMSWING_CURVE -o my_controller my_controller.c armswing_client.c armswing_curve.c -lm -lsodium
 *
 * A node fills in `armswing_node` and calls `armswing_main`. A launch file starts the program by its path,
 * `run = "my_controller"`; started by hand, the program joins the live launch of its domain.
 *
 * All functions are called from one thread. SI units and radians.
 */
#ifndef ARMSWING_CLIENT_H
#define ARMSWING_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifndef ARMSWING_JOINTS
#define ARMSWING_JOINTS 64 /* largest number of joints and actuators of a state */
#endif
#ifndef ARMSWING_NAME
#define ARMSWING_NAME 96 /* size of a name, with its final zero byte */
#endif

typedef struct armswing_client armswing_client;

/* A MessagePack value inside a received message; at == NULL for a value that is absent. Valid during the call. */
typedef struct {
    const unsigned char *at, *end;
} armswing_value;

/* A received message: its name in `subscribes`, its full topic, and its fields as a MessagePack map. */
typedef struct {
    const char *name, *topic;
    armswing_value fields;
} armswing_message;

/* The message RobotState of the topic `state`. */
typedef struct {
    double timestamp; /* s */
    int64_t seq;
    size_t n; /* joints, then actuators that are no joint */
    char name[ARMSWING_JOINTS][ARMSWING_NAME];
    double position[ARMSWING_JOINTS]; /* rad or m */
    double velocity[ARMSWING_JOINTS]; /* rad/s or m/s */
    double effort[ARMSWING_JOINTS];   /* N m or N; 0 where the message has none */
} armswing_state;

/* A parameter, a number; `value` is its default and then its present value. */
typedef struct {
    const char *name;
    double value;
    const char *unit;
    double low, high; /* inclusive limits; -HUGE_VAL and HUGE_VAL for none */
} armswing_parameter;

/* What a node subscribes to and publishes, and its functions; all but `name` may be absent. */
typedef struct {
    const char *name;                /* of the node, where no launch gives another */
    const char *const *subscribes;   /* names of topics, such as "state", ended by NULL */
    const char *const *publishes;    /* names of topics, such as "command", ended by NULL */
    armswing_parameter *parameters;  /* ended by one whose name is NULL */
    int lossless;                    /* whether the node must receive every message; see docs/wire.md */
    double rate_hz;                  /* rate of on_tick, 0 for never; by simulation time in lockstep */
    void (*on_start)(armswing_client *client);
    void (*on_message)(armswing_client *client, const armswing_message *message);
    void (*on_tick)(armswing_client *client, double now);        /* s */
    void (*on_reset)(armswing_client *client, double time);      /* simulation time was set back to `time`, s */
    const char *(*on_parameters)(armswing_client *client);       /* NULL, or why the new values are refused */
    void (*on_stop)(armswing_client *client);
    /* `armswing estop` was called (stopped is 1), or the robot is released (0). A driver, which subscribes to "command" and
     * publishes "measured_state", gets no commands in between; here it can brake its motors. */
    void (*on_emergency_stop)(armswing_client *client, int stopped);
} armswing_node;

/* Run a node until it is asked to stop. Returns the exit code: 0 stopped, 1 failed, 2 bad arguments or refused. */
int armswing_main(int count, char **arguments, armswing_node *node);

/* Simulation time of the turn or of the latest state, s. */
double armswing_time(const armswing_client *client);
/* Name of the node, and of its robot ("" before it is known). */
const char *armswing_name(const armswing_client *client);
const char *armswing_robot(const armswing_client *client);
/* End the node as failed, with a one-line reason. */
void armswing_fail(armswing_client *client, const char *reason);
/* A warning line at the launch. */
void armswing_warn(armswing_client *client, const char *text);

/* Publish a JointCommand on the topic `name`; mode "effort", "velocity" or "position". state_seq: seq of the state that
 * it answers, -1 for none. Returns 0, or -1 for numbers that are not finite or a topic that is not in `publishes`. */
int armswing_command(armswing_client *client, const char *name, const char *mode, size_t n, const char *const *actuators,
                     const double *values, int64_t state_seq);
/* Show a value live and in recordings, published after the present call on "<robot>/<node>/plot". */
void armswing_plot(armswing_client *client, const char *name, double value);

/* Publish any message: begin with the number of its fields beside timestamp, seq and sent_ns, put each field's name and
 * value, and end. begin returns 0, or -1 for a topic that is not in `publishes`. */
int armswing_begin(armswing_client *client, const char *name, uint32_t n_fields);
void armswing_put_text(armswing_client *client, const char *text);
void armswing_put_number(armswing_client *client, double number);
void armswing_put_integer(armswing_client *client, int64_t number);
void armswing_put_array(armswing_client *client, uint32_t length);
void armswing_put_map(armswing_client *client, uint32_t length);
void armswing_put_nil(armswing_client *client);
void armswing_put_bool(armswing_client *client, int truth);
void armswing_end(armswing_client *client);

/* Read a RobotState. Returns 0, or -1 for a message that is none. */
int armswing_read_state(const armswing_message *message, armswing_state *state);
/* Index of a joint or actuator in a state, -1 for none. */
int armswing_index(const armswing_state *state, const char *name);
/* Value of a key of a map; absent where it is no map or has no such key. */
armswing_value armswing_get(armswing_value map, const char *key);
/* Number of elements of an array or of pairs of a map; 0 for another value. */
size_t armswing_length(armswing_value value);
/* First element of an array (first key of a map), and the value after a value. */
armswing_value armswing_first(armswing_value value);
armswing_value armswing_next(armswing_value value);
/* Whether the value is a number; whether it is a text. */
int armswing_number(armswing_value value, double *number);
int armswing_integer(armswing_value value, int64_t *number);
int armswing_text(armswing_value value, const char **text, size_t *length);
int armswing_is_text(armswing_value value, const char *text);

#endif
