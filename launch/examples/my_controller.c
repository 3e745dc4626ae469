/* Holds the arm of the rotary pendulum at an angle, with a spring and a damper: my_controller.py in C.
 *
 * It joins a live launch as any other node does, by what docs/wire.md says and nothing else:
 *
 *   cc -O2 -o my_controller launch/examples/my_controller.c -lzmq -lmsgpackc    (-lmsgpack-c from Debian 13 on)
 *   ./my_controller [domain]
 *
 * Debian: libzmq3-dev, libmsgpack-dev (libmsgpack-c-dev from Debian 13 on).
 */
#include <errno.h>
#include <msgpack.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

static const double ANGLE = 0.5235987755982988; /* rad: 30 degrees */
static const double STIFFNESS = 0.02;           /* N m/rad */
static const double DAMPING = 0.003;            /* N m s/rad */
#define NAME "my_controller"
#define JOINT "arm"
#define PROTOCOL 2 /* of the names on the wire, see docs/wire.md */

enum { LARGEST_FRAME = 4 << 20, LARGEST_MESSAGE = 1 << 20, RENEW_MS = 1000, STATUS_MS = 500, NAME_SIZE = 256 };

static struct {
    char folder[96];                        /* of the domain's sockets */
    char data[160], service[160];           /* our own addresses */
    void *context, *publisher, *calls, *news, *server, *states;
    char states_at[NAME_SIZE];              /* the address that `states` is connected to, "" for none */
    char robot[NAME_SIZE], state_topic[NAME_SIZE + 16], command_topic[NAME_SIZE + 16];
    uint64_t call_id, commands, status_seq, received, refused;
    int64_t last_seq;                       /* of the state that was answered last */
    double time;                            /* s of simulation time */
    bool registered;
} node;

static volatile sig_atomic_t stop_asked = 0;

static void ask_to_stop(int number) {
    (void)number, stop_asked = 1;
}

static void fail(const char *what) {
    fprintf(stderr, "error: %s: %s\n", what, zmq_strerror(errno));
    exit(1);
}

static int64_t nanoseconds(clockid_t clock) {
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? (int64_t)now.tv_sec * 1000000000 + now.tv_nsec : 0;
}

/* -- sockets */

static void *open_socket(int kind) {
    const int none = 0;
    const int64_t largest = LARGEST_FRAME;
    void *socket = zmq_socket(node.context, kind);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
    return socket;
}

/* Reads one whole message, its first and last frame. The number of frames, 0 when nothing is here. */
static int receive(void *socket, zmq_msg_t *first, zmq_msg_t *last) {
    int frames = 0, more = 1;
    zmq_msg_t frame;
    zmq_msg_init(first), zmq_msg_init(last);
    while (more) {
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) < 0) return 0;
        more = zmq_msg_more(&frame);
        zmq_msg_move(frames++ ? last : first, &frame);
    }
    return frames;
}

static void say(const char *topic, const msgpack_sbuffer *payload) {
    zmq_send(node.publisher, topic, strlen(topic), ZMQ_SNDMORE);
    zmq_send(node.publisher, payload->data, payload->size, 0);
}

/* -- MessagePack */

static msgpack_packer begin(msgpack_sbuffer *buffer) {
    msgpack_packer to;
    msgpack_sbuffer_init(buffer);
    msgpack_packer_init(&to, buffer, msgpack_sbuffer_write);
    return to;
}

static void put_text(msgpack_packer *to, const char *text) {
    msgpack_pack_str(to, strlen(text));
    msgpack_pack_str_body(to, text, strlen(text));
}

static bool is_text(const msgpack_object *object, const char *text) {
    return object->type == MSGPACK_OBJECT_STR && object->via.str.size == strlen(text) &&
           memcmp(object->via.str.ptr, text, strlen(text)) == 0;
}

/* The value of a key, NULL where the object is no map or has no such key. */
static const msgpack_object *get(const msgpack_object *map, const char *key) {
    if (map == NULL || map->type != MSGPACK_OBJECT_MAP) return NULL;
    for (uint32_t i = 0; i < map->via.map.size; i++)
        if (is_text(&map->via.map.ptr[i].key, key)) return &map->via.map.ptr[i].val;
    return NULL;
}

static bool copy_text(char *to, const msgpack_object *from) { /* to: NAME_SIZE bytes */
    if (from == NULL || from->type != MSGPACK_OBJECT_STR || from->via.str.size >= NAME_SIZE) return false;
    memcpy(to, from->via.str.ptr, from->via.str.size);
    to[from->via.str.size] = '\0';
    return true;
}

static bool number(const msgpack_object *object, double *value) {
    const bool whole = object != NULL && object->type == MSGPACK_OBJECT_POSITIVE_INTEGER;
    if (!whole && (object == NULL || object->type != MSGPACK_OBJECT_FLOAT64)) return false;
    *value = whole ? (double)object->via.u64 : object->via.f64;
    return true;
}

static const msgpack_object *element(const msgpack_object *array, uint32_t index) {
    const bool there = array != NULL && array->type == MSGPACK_OBJECT_ARRAY && index < array->via.array.size;
    return there ? &array->via.array.ptr[index] : NULL;
}

static bool unpack(msgpack_unpacked *found, zmq_msg_t *message) {
    msgpack_unpacked_init(found);
    return zmq_msg_size(message) <= LARGEST_MESSAGE &&
           msgpack_unpack_next(found, zmq_msg_data(message), zmq_msg_size(message), NULL) == MSGPACK_UNPACK_SUCCESS;
}

/* -- what this node says */

/* What every message carries. */
static void put_stamp(msgpack_packer *to, uint64_t seq) {
    put_text(to, "timestamp"), msgpack_pack_double(to, node.time);
    put_text(to, "seq"), msgpack_pack_uint64(to, seq);
    put_text(to, "sent_ns"), msgpack_pack_int64(to, nanoseconds(CLOCK_REALTIME));
}

static const char *own_state(void) { return stop_asked ? "stopped" : node.states_at[0] ? "ready" : "starting"; }

static void put_status(msgpack_packer *to, uint64_t seq) {
    msgpack_pack_map(to, 6);
    put_stamp(to, seq);
    put_text(to, "node"), put_text(to, NAME);
    put_text(to, "state"), put_text(to, own_state());
    put_text(to, "counters"), msgpack_pack_map(to, 3);
    put_text(to, "received"), msgpack_pack_uint64(to, node.received);
    put_text(to, "sent"), msgpack_pack_uint64(to, node.commands);
    put_text(to, "refused"), msgpack_pack_uint64(to, node.refused);
}

static void say_status(void) {
    msgpack_sbuffer buffer;
    msgpack_packer to = begin(&buffer);
    put_status(&to, ++node.status_seq);
    say("status", &buffer);
    msgpack_sbuffer_destroy(&buffer);
}

static void say_command(double effort, int64_t state_seq) {
    msgpack_sbuffer buffer;
    msgpack_packer to = begin(&buffer);
    msgpack_pack_map(&to, 7);
    put_stamp(&to, ++node.commands);
    put_text(&to, "mode"), put_text(&to, "effort");
    put_text(&to, "name"), msgpack_pack_array(&to, 1), put_text(&to, JOINT);
    put_text(&to, "value"), msgpack_pack_array(&to, 1), msgpack_pack_double(&to, effort);
    put_text(&to, "state_seq"), msgpack_pack_int64(&to, state_seq);
    say(node.command_topic, &buffer);
    msgpack_sbuffer_destroy(&buffer);
}

/* -- the registry */

/* Calls `register` (which renews too) or `unregister`. */
static void call_registry(const char *call) {
    msgpack_sbuffer buffer;
    msgpack_packer to = begin(&buffer);
    msgpack_pack_map(&to, 3);
    put_text(&to, "id"), msgpack_pack_uint64(&to, ++node.call_id);
    put_text(&to, "call"), put_text(&to, call);
    put_text(&to, "args"), msgpack_pack_map(&to, 7);
    put_text(&to, "name"), put_text(&to, NAME);
    put_text(&to, "protocol"), msgpack_pack_int64(&to, PROTOCOL);
    put_text(&to, "pid"), msgpack_pack_int64(&to, getpid());
    put_text(&to, "state"), put_text(&to, own_state());
    put_text(&to, "endpoints"), msgpack_pack_map(&to, 2);
    put_text(&to, "data"), put_text(&to, node.data);
    put_text(&to, "service"), put_text(&to, node.service);
    put_text(&to, "publishes"), msgpack_pack_array(&to, node.robot[0] ? 2 : 1), put_text(&to, "status");
    if (node.robot[0]) put_text(&to, node.command_topic);
    put_text(&to, "subscribes"), msgpack_pack_array(&to, node.robot[0] ? 1 : 0);
    if (node.robot[0]) put_text(&to, node.state_topic);
    zmq_send(node.calls, buffer.data, buffer.size, ZMQ_DONTWAIT);
    msgpack_sbuffer_destroy(&buffer);
}

static void hear_reply(zmq_msg_t *payload) {
    char line[NAME_SIZE] = "";
    msgpack_unpacked reply;
    if (unpack(&reply, payload)) {
        const msgpack_object *ok = get(&reply.data, "ok");
        if (ok != NULL && ok->type == MSGPACK_OBJECT_BOOLEAN && !ok->via.boolean) {
            copy_text(line, get(&reply.data, "error"));
            stop_asked = fprintf(stderr, "error: the registry refuses: %s\n", line) != 0;
        }
        node.registered = true;
    }
    msgpack_unpacked_destroy(&reply);
}

/* Listens to the states of the server that is said to be at this address. */
static void follow(const char *address) {
    if (strcmp(address, node.states_at) == 0) return;
    if (node.states != NULL) zmq_close(node.states);
    node.states = open_socket(ZMQ_SUB);
    snprintf(node.state_topic, sizeof node.state_topic, "%s/state", node.robot);
    snprintf(node.command_topic, sizeof node.command_topic, "%s/command", node.robot);
    zmq_setsockopt(node.states, ZMQ_SUBSCRIBE, node.state_topic, strlen(node.state_topic));
    if (zmq_connect(node.states, address) != 0) fail(address);
    strcpy(node.states_at, address);
    node.last_seq = 0;
    fprintf(stderr, "joined: robot %s, states from %s\n", node.robot, address);
    call_registry("register");
}

/* Looks for the node that says `<robot>/state`. */
static void hear_news(zmq_msg_t *payload) {
    msgpack_unpacked news;
    if (unpack(&news, payload)) {
        const msgpack_object *nodes = get(&news.data, "nodes"), *entry, *topic;
        for (uint32_t i = 0; (entry = element(nodes, i)) != NULL; i++) {
            char said[NAME_SIZE], address[NAME_SIZE];
            if (get(entry, "name") == NULL || !is_text(get(entry, "name"), "sim")) continue;
            for (uint32_t j = 0; (topic = element(get(entry, "publishes"), j)) != NULL; j++) {
                const size_t length = copy_text(said, topic) ? strlen(said) : 0;
                if (length <= 6 || strcmp(said + length - 6, "/state") != 0) continue;
                said[length - 6] = '\0';
                if (!copy_text(address, get(get(entry, "endpoints"), "data"))) continue;
                strcpy(node.robot, said);
                follow(address);
            }
        }
    }
    msgpack_unpacked_destroy(&news);
}

/* -- the loop */

static void hear_state(zmq_msg_t *payload) {
    msgpack_unpacked state;
    double q, v, seq;
    bool answered = false;
    if (unpack(&state, payload) && number(get(&state.data, "seq"), &seq) && (int64_t)seq > node.last_seq) {
        const msgpack_object *names = get(&state.data, "name"), *name;
        number(get(&state.data, "timestamp"), &node.time);
        for (uint32_t i = 0; (name = element(names, i)) != NULL && !answered; i++)
            if (is_text(name, JOINT) && number(element(get(&state.data, "position"), i), &q) &&
                number(element(get(&state.data, "velocity"), i), &v)) {
                node.last_seq = (int64_t)seq;
                node.received++;
                say_command(STIFFNESS * (ANGLE - q) - DAMPING * v, node.last_seq);
                answered = true;
            }
    }
    if (!answered) node.refused++;
    msgpack_unpacked_destroy(&state);
}

/* A new subscription: the status is latched, so it is said again; "~" is given back, so that the listener knows. */
static void serve_subscription(zmq_msg_t *message) {
    const char *bytes = zmq_msg_data(message);
    const size_t size = zmq_msg_size(message);
    if (size == 0 || bytes[0] != 1) return;
    if (size == 2 && bytes[1] == '~') {
        zmq_send(node.publisher, "~", 1, ZMQ_SNDMORE);
        zmq_send(node.publisher, "", 0, 0);
    } else if (size - 1 <= strlen("status") && memcmp(bytes + 1, "status", size - 1) == 0) {
        say_status();
    }
}

/* Answers a service call: `clock`, `status` and `shutdown`; others are refused in one line. */
static void serve(int64_t received_ns, zmq_msg_t *route, zmq_msg_t *payload) {
    msgpack_unpacked call;
    if (unpack(&call, payload) && get(&call.data, "id") != NULL && get(&call.data, "call") != NULL) {
        const msgpack_object *asked = get(&call.data, "call");
        const bool clock = is_text(asked, "clock"), status = is_text(asked, "status");
        const bool shutdown = is_text(asked, "shutdown"), known = clock || status || shutdown;
        msgpack_sbuffer buffer;
        msgpack_packer to = begin(&buffer);
        msgpack_pack_map(&to, 3), put_text(&to, "id"), msgpack_pack_object(&to, *get(&call.data, "id"));
        put_text(&to, "ok"), known ? msgpack_pack_true(&to) : msgpack_pack_false(&to);
        if (clock) {
            put_text(&to, "result"), msgpack_pack_map(&to, 2);
            put_text(&to, "received_ns"), msgpack_pack_int64(&to, received_ns);
            put_text(&to, "answered_ns"), msgpack_pack_int64(&to, nanoseconds(CLOCK_REALTIME));
        } else if (status) {
            put_text(&to, "result"), put_status(&to, node.status_seq);
        } else {
            put_text(&to, "error"), put_text(&to, shutdown ? "" : NAME " has the services clock, status and shutdown");
        }
        zmq_send(node.server, zmq_msg_data(route), zmq_msg_size(route), ZMQ_SNDMORE);
        zmq_send(node.server, buffer.data, buffer.size, ZMQ_DONTWAIT);
        msgpack_sbuffer_destroy(&buffer);
        if (shutdown) stop_asked = 1;
    }
    msgpack_unpacked_destroy(&call);
}

/* Takes all that waits on one socket. */
static void drain(void *socket) {
    zmq_msg_t first, last;
    int frames;
    while ((frames = receive(socket, &first, &last)) > 0) {
        if (socket == node.states && frames == 2) hear_state(&last);
        else if (socket == node.news && frames == 2) hear_news(&last);
        else if (socket == node.calls && frames == 1) hear_reply(&first);
        else if (socket == node.publisher && frames == 1) serve_subscription(&first);
        else if (socket == node.server && frames == 2) serve(nanoseconds(CLOCK_REALTIME), &first, &last);
        else node.refused++;
        zmq_msg_close(&first), zmq_msg_close(&last);
    }
}

static void run(void) {
    int64_t renew_at = 0, status_at = 0, told = 0;
    while (!stop_asked) {
        const int64_t now = nanoseconds(CLOCK_MONOTONIC) / 1000000;
        if (now >= renew_at && renew_at != 0 && !node.registered && !told)
            told = fprintf(stderr, "waiting: no launch answers in %s; Ctrl-C ends\n", node.folder) > 0;
        if (now >= renew_at) renew_at = now + RENEW_MS, call_registry("register");
        if (now >= status_at) status_at = now + STATUS_MS, say_status();
        void *sockets[] = {node.calls, node.news, node.publisher, node.server, node.states};
        zmq_pollitem_t items[5];
        const int count = node.states != NULL ? 5 : 4;
        for (int i = 0; i < count; i++) items[i] = (zmq_pollitem_t){.socket = sockets[i], .events = ZMQ_POLLIN};
        if (zmq_poll(items, count, status_at - now) < 0 && errno != EINTR) fail("poll");
        for (int i = count - 1; i >= 0; i--)
            if (items[i].revents & ZMQ_POLLIN) drain(sockets[i]);
    }
}

static void find_folder(const char *domain) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (domain == NULL && (domain = getenv("ARMSWING_DOMAIN")) == NULL) domain = "0";
    if (runtime != NULL && runtime[0])
        snprintf(node.folder, sizeof node.folder, "%s/armswing/%s", runtime, domain);
    else
        snprintf(node.folder, sizeof node.folder, "/tmp/armswing-%ld/%s", (long)getuid(), domain);
    if (access(node.folder, W_OK) != 0) {
        fprintf(stderr, "error: no launch is live in domain %s: there is no folder %s\n", domain, node.folder);
        exit(2);
    }
}

int main(int count, char **arguments) {
    const int verbose = 1;
    char calls[160], news[160];
    find_folder(count > 1 ? arguments[1] : NULL);
    signal(SIGINT, ask_to_stop), signal(SIGTERM, ask_to_stop);
    snprintf(node.data, sizeof node.data, "ipc://%s/" NAME "-%ld.data", node.folder, (long)getpid());
    snprintf(node.service, sizeof node.service, "ipc://%s/" NAME "-%ld.service", node.folder, (long)getpid());
    snprintf(calls, sizeof calls, "ipc://%s/registry", node.folder);
    snprintf(news, sizeof news, "ipc://%s/registry-news", node.folder);
    node.context = zmq_ctx_new();
    node.publisher = open_socket(ZMQ_XPUB);
    zmq_setsockopt(node.publisher, ZMQ_XPUB_VERBOSE, &verbose, sizeof verbose);
    node.server = open_socket(ZMQ_ROUTER);
    node.calls = open_socket(ZMQ_DEALER);
    node.news = open_socket(ZMQ_SUB);
    zmq_setsockopt(node.news, ZMQ_SUBSCRIBE, "registry", 8);
    if (zmq_bind(node.publisher, node.data) != 0) fail(node.data);
    if (zmq_bind(node.server, node.service) != 0) fail(node.service);
    if (zmq_connect(node.calls, calls) != 0) fail(calls);
    if (zmq_connect(node.news, news) != 0) fail(news);

    run();

    say_status();
    call_registry("unregister");
    zmq_pollitem_t reply = {.socket = node.calls, .events = ZMQ_POLLIN};
    zmq_poll(&reply, 1, 500); /* LINGER is 0: what is not sent when the context ends is dropped */
    void *sockets[] = {node.publisher, node.server, node.calls, node.news, node.states};
    for (int i = 0; i < 5; i++)
        if (sockets[i] != NULL) zmq_close(sockets[i]);
    zmq_ctx_term(node.context);
    unlink(node.data + 6), unlink(node.service + 6); /* without ipc:// */
    fprintf(stderr, "ended: %llu states answered\n", (unsigned long long)node.commands);
    return node.registered ? 0 : 1;
}
