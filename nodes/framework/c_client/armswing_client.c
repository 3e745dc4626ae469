/* Client of armswing in C99, see armswing_client.h. The protocol is that of docs/wire.md.
 *
 * From top to bottom: MessagePack, ZMTP connections, messages of the node, registry, services, lockstep turns, sockets,
 * hosts, the loop.
 */
#define _DEFAULT_SOURCE
#include "armswing_client.h"
#include "armswing_curve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    PROTOCOL = 2, /* of the names on the wire */
    LARGEST_FRAME = 4 << 20,
    LARGEST_MESSAGE = 1 << 20,
    LARGEST_BACKLOG = 8 << 20, /* bytes that wait for a slow peer; what comes after them is dropped */
    REMOTE_BACKLOG = 1 << 17,  /* the same for a peer on another computer */
    TOPICS = 32,
    SOURCES = 64,
    PARAMETERS = 64,
    PLOTTED = 64,
    REASONS = 64, /* largest number of different refusals that are printed */
    PATH_SIZE = 108, /* of sockaddr_un */
    ENDPOINT_SIZE = 192,
    ADDRESS_SIZE = 64, /* of an IP address as text */
    TOPIC_SIZE = 3 * ARMSWING_NAME,
    REGISTER_MS = 1000,
    STATUS_MS = 500,
    RECONNECT_MS = 20,
    REMOTE_RECONNECT_MS = 100,
    HEARTBEAT_MS = 100, /* of connections to other computers */
    SILENCE_MS = 1000,  /* such a connection ends when nothing arrives for this time */
    HANDSHAKE_MS = 2000,
    CHECK_MS = 500,     /* interval of the check of the allow-list for revoked keys */
    NEWCOMERS = 64,     /* largest number of connections from other computers whose handshakes go on */
    REMOTE_LINKS = 512, /* largest number of connections from other computers */
    LAST_WORDS_MS = 500,
    BINS = 40 * 16 /* of the histogram of times: 16 per octave, up to 2^40 ns */
};

/* -- bytes */

typedef struct {
    unsigned char *data;
    size_t start, size, capacity; /* the content is data[start .. size] */
} buffer;

static void *grown(void *old, size_t size) {
    void *data = realloc(old, size);
    if (data == NULL) {
        fprintf(stderr, "error: no memory for %lu bytes\n", (unsigned long)size);
        exit(1);
    }
    return data;
}

static unsigned char *room(buffer *to, size_t more) {
    if (to->start > 0 && (to->start == to->size || to->start > to->capacity / 2)) {
        memmove(to->data, to->data + to->start, to->size - to->start);
        to->size -= to->start, to->start = 0;
    }
    if (to->size + more > to->capacity) {
        to->capacity = 2 * to->capacity + more + 256;
        to->data = grown(to->data, to->capacity);
    }
    return to->data + to->size;
}

static void put_bytes(buffer *to, const void *bytes, size_t count) {
    if (count == 0) return;
    memcpy(room(to, count), bytes, count);
    to->size += count;
}

static void put_byte(buffer *to, unsigned byte) {
    *room(to, 1) = (unsigned char)byte;
    to->size++;
}

static void put_big_endian(buffer *to, uint64_t number, int bytes) {
    while (bytes-- > 0) put_byte(to, (unsigned)(number >> (8 * bytes)) & 0xffU);
}

static uint64_t big_endian(const unsigned char *at, size_t bytes) {
    uint64_t number = 0;
    while (bytes-- > 0) number = number << 8 | *at++;
    return number;
}

static void clear(buffer *to) { to->start = to->size = 0; }

/* Copy a text into an array of `size` bytes; returns whether it fits. */
static int copy_text(char *to, size_t size, const char *text, size_t length) {
    const int fits = length < size && memchr(text, '\0', length) == NULL;
    if (!fits) length = 0;
    memcpy(to, text, length);
    to[length] = '\0';
    return fits;
}

/* The texts up to NULL, one after the other, in an array of `size` bytes; returns whether they fit. */
static int join_text(char *to, size_t size, ...) {
    va_list texts;
    const char *text;
    size_t used = 0;
    int fits = 1;
    va_start(texts, size);
    while ((text = va_arg(texts, const char *)) != NULL) {
        const size_t length = strlen(text);
        if (used + length >= size) {
            fits = 0;
            break;
        }
        memcpy(to + used, text, length), used += length;
    }
    va_end(texts);
    to[used] = '\0';
    return fits;
}

/* -- MessagePack, written */

static void pack_integer(buffer *to, int64_t number) { /* in its shortest form */
    if (number >= 0) {
        if (number < 128) put_byte(to, (unsigned)number);
        else if (number < 256) put_byte(to, 0xcc), put_big_endian(to, (uint64_t)number, 1);
        else if (number < 65536) put_byte(to, 0xcd), put_big_endian(to, (uint64_t)number, 2);
        else if (number < (int64_t)1 << 32) put_byte(to, 0xce), put_big_endian(to, (uint64_t)number, 4);
        else put_byte(to, 0xcf), put_big_endian(to, (uint64_t)number, 8);
    } else if (number >= -32) {
        put_byte(to, (unsigned)(number & 0xff));
    } else {
        put_byte(to, 0xd3), put_big_endian(to, (uint64_t)number, 8);
    }
}

static void pack_number(buffer *to, double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    put_byte(to, 0xcb), put_big_endian(to, bits, 8);
}

static void pack_head(buffer *to, size_t length, unsigned fix, size_t largest_fix, unsigned wide) {
    if (length <= largest_fix) put_byte(to, fix | (unsigned)length);
    else if (length < 65536) put_byte(to, wide), put_big_endian(to, length, 2);
    else put_byte(to, wide + 1), put_big_endian(to, length, 4);
}

static void pack_map(buffer *to, size_t length) { pack_head(to, length, 0x80, 15, 0xde); }
static void pack_array(buffer *to, size_t length) { pack_head(to, length, 0x90, 15, 0xdc); }

static void pack_text_of(buffer *to, const char *text, size_t length) {
    if (length >= 32 && length < 256) put_byte(to, 0xd9), put_byte(to, (unsigned)length);
    else pack_head(to, length, 0xa0, 31, 0xda);
    put_bytes(to, text, length);
}

static void pack_text(buffer *to, const char *text) { pack_text_of(to, text, strlen(text)); }
static void pack_nil(buffer *to) { put_byte(to, 0xc0); }
static void pack_bool(buffer *to, int truth) { put_byte(to, truth ? 0xc3 : 0xc2); }

static void pack_bytes(buffer *to, const unsigned char *bytes, size_t length) {
    if (length < 256) put_byte(to, 0xc4), put_big_endian(to, length, 1);
    else if (length < 65536) put_byte(to, 0xc5), put_big_endian(to, length, 2);
    else put_byte(to, 0xc6), put_big_endian(to, length, 4);
    put_bytes(to, bytes, length);
}

/* -- MessagePack, read: nothing is read beyond the end of the message, whatever it says */

typedef enum { ABSENT, NIL, BOOL, WHOLE, REAL, TEXT, BYTES, ARRAY, MAP, OTHER } kind;

typedef struct {
    kind kind;
    uint64_t length;           /* of TEXT, BYTES and OTHER in bytes, of ARRAY in elements, of MAP in pairs */
    int64_t whole;             /* of WHOLE and BOOL */
    double real;               /* of REAL, and of WHOLE that is larger than `whole` holds */
    const unsigned char *body; /* after the head */
} head;

static head head_of(armswing_value value) {
    static const unsigned char bytes_of[] = {/* after the bytes 0xc4 .. 0xdf: size of a length or a number */
        1, 2, 4, 1, 2, 4, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 16, 1, 2, 4, 2, 4, 2, 4};
    head found = {ABSENT, 0, 0, 0.0, NULL};
    uint64_t number = 0;
    unsigned first, bytes = 0;
    if (value.at == NULL || value.at >= value.end) return found;
    first = *value.at;
    if (first >= 0xc4 && first <= 0xdf) bytes = bytes_of[first - 0xc4];
    if (first >= 0xd4 && first <= 0xd8) bytes = 0; /* extension of fixed size */
    if ((size_t)(value.end - value.at) < 1U + bytes) return found;
    number = big_endian(value.at + 1, bytes);
    found.body = value.at + 1 + bytes;
    found.length = number;
    if (first < 0x80) found.kind = WHOLE, found.whole = (int64_t)first;
    else if (first < 0x90) found.kind = MAP, found.length = first & 15U;
    else if (first < 0xa0) found.kind = ARRAY, found.length = first & 15U;
    else if (first < 0xc0) found.kind = TEXT, found.length = first & 31U;
    else if (first == 0xc0) found.kind = NIL;
    else if (first == 0xc1) found.kind = ABSENT;
    else if (first < 0xc4) found.kind = BOOL, found.whole = first == 0xc3;
    else if (first < 0xc7) found.kind = BYTES;
    else if (first < 0xca) found.kind = OTHER, found.length = number + 1;
    else if (first == 0xca) {
        const uint32_t bits = (uint32_t)number;
        float real;
        memcpy(&real, &bits, sizeof real);
        found.kind = REAL, found.real = (double)real;
    } else if (first == 0xcb) {
        memcpy(&found.real, &number, sizeof found.real);
        found.kind = REAL;
    } else if (first < 0xd0) {
        found.kind = number >> 63 ? REAL : WHOLE, found.whole = (int64_t)(number >> 63 ? 0 : number);
        found.real = (double)number;
    } else if (first < 0xd4) {
        const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
        found.kind = WHOLE;
        found.whole = number & sign ? -(int64_t)(~number & (sign - 1)) - 1 : (int64_t)number;
    } else if (first < 0xd9) found.kind = OTHER, found.length = 1 + ((uint64_t)1 << (first - 0xd4));
    else if (first < 0xdc) found.kind = TEXT;
    else if (first < 0xde) found.kind = ARRAY;
    else if (first < 0xe0) found.kind = MAP;
    else found.kind = WHOLE, found.whole = (int64_t)first - 256;
    if ((found.kind == TEXT || found.kind == BYTES || found.kind == OTHER) &&
        found.length > (uint64_t)(value.end - found.body))
        found.kind = ABSENT;
    return found;
}

static const armswing_value NOTHING = {NULL, NULL};

armswing_value armswing_next(armswing_value value) {
    uint64_t left = 1;
    while (left > 0) {
        const head found = head_of(value);
        if (found.kind == ABSENT) return NOTHING;
        left--;
        value.at = found.body;
        if (found.kind == TEXT || found.kind == BYTES || found.kind == OTHER) value.at += found.length;
        else if (found.kind == ARRAY) left += found.length;
        else if (found.kind == MAP) left += 2 * found.length;
    }
    return value;
}

size_t armswing_length(armswing_value value) {
    const head found = head_of(value);
    return found.kind == ARRAY || found.kind == MAP ? (size_t)found.length : 0;
}

armswing_value armswing_first(armswing_value value) {
    const head found = head_of(value);
    if ((found.kind != ARRAY && found.kind != MAP) || found.length == 0) return NOTHING;
    value.at = found.body;
    return value;
}

int armswing_text(armswing_value value, const char **text, size_t *length) {
    const head found = head_of(value);
    if (found.kind != TEXT) return 0;
    *text = (const char *)found.body, *length = (size_t)found.length;
    return 1;
}

int armswing_is_text(armswing_value value, const char *text) {
    const head found = head_of(value);
    return found.kind == TEXT && found.length == strlen(text) && memcmp(found.body, text, (size_t)found.length) == 0;
}

int armswing_number(armswing_value value, double *number) {
    const head found = head_of(value);
    if (found.kind != REAL && found.kind != WHOLE) return 0;
    *number = found.kind == REAL ? found.real : (double)found.whole;
    return 1;
}

int armswing_integer(armswing_value value, int64_t *number) {
    const head found = head_of(value);
    if (found.kind != WHOLE) return 0;
    *number = found.whole;
    return 1;
}

armswing_value armswing_get(armswing_value map, const char *key) {
    const head found = head_of(map);
    armswing_value at = armswing_first(map);
    uint64_t pair;
    if (found.kind != MAP) return NOTHING;
    for (pair = 0; pair < found.length && at.at != NULL; pair++) {
        const armswing_value content = armswing_next(at);
        if (armswing_is_text(at, key)) return content;
        at = armswing_next(content);
    }
    return NOTHING;
}

/* Whether the bytes are one whole value. */
static int is_whole(armswing_value value) {
    const armswing_value after = armswing_next(value);
    return value.at != NULL && after.at != NULL && after.at == value.end;
}

static armswing_value bytes_in(armswing_value value) {
    const head found = head_of(value);
    armswing_value inner = NOTHING;
    if (found.kind == BYTES) inner.at = found.body, inner.end = found.body + found.length;
    return inner;
}

/* -- the client */

typedef enum { DATA, SERVICE, STEP, REGISTRY, NEWS, SOURCE, GRANT, ROLES } role;

static const char *const SOCKET_TYPE[] = {"XPUB", "ROUTER", "ROUTER", "DEALER", "SUB", "SUB", "DEALER"};

/* Kinds of connections that were rejected, as the registry counts them. */
typedef enum { UNKNOWN_KEY, NO_KEY, NO_ZMTP, KINDS } rejection;

static const char *const KIND_NAME[] = {"unknown_key", "no_key", "no_zmtp"};

typedef struct { /* one ZMTP connection */
    int fd;
    role role;
    int source;    /* index of the publisher, of SOURCE */
    int greeted;   /* the peer's greeting has arrived */
    int ready;     /* the handshake is over */
    int confirmed; /* the publisher has echoed the probe */
    int broken;
    int encrypted; /* to another computer, over tcp with CURVE */
    int accepted;  /* the peer opened it */
    rejection kind; /* of an accepted connection that ends before its handshake is over; KINDS where none was refused */
    int64_t opened_at, heard_at, beat_at; /* ms */
    char peer[ADDRESS_SIZE];
    curve_session curve;
    buffer in, out, topics; /* topics: of DATA, the peer's subscriptions, each ended by a zero byte */
    buffer plain;           /* what has arrived, decrypted */
} connection;

typedef struct {
    char name[ARMSWING_NAME], address[ENDPOINT_SIZE];
    int64_t seq[TOPICS]; /* of the latest message by topic */
    unsigned char owns[TOPICS]; /* whether it has registered the topic */
    int64_t retry_at;    /* ms; 0 while connected */
    int listed;
} source;

typedef struct {
    const char *name; /* in the node */
    char full[TOPIC_SIZE];
    int published;
    int64_t seq;
} topic;

struct armswing_client {
    armswing_node *node;
    char name[ARMSWING_NAME], robot[ARMSWING_NAME], host[ARMSWING_NAME], folder[PATH_SIZE];
    char path[STEP + 1][PATH_SIZE];
    int listener[STEP + 1], locked[STEP + 1];
    char address[ADDRESS_SIZE];             /* of this computer, in a launch on several computers */
    char registry[2][ENDPOINT_SIZE];        /* for calls, for news, where it is on another computer */
    int remote_listener[STEP + 1];          /* for other computers */
    char remote_path[STEP + 1][ENDPOINT_SIZE];
    uint64_t rejected[KINDS], n_rejected;
    int64_t check_at;
    int checked;         /* no entry of an ended process has this node's name */
    uint64_t removal_id; /* of the call that removed one */
    char simulation[ENDPOINT_SIZE]; /* of the simulation's services */
    int granted;                    /* index of the topic of commands for which the simulation was asked */
    int lockstep, participant, launched;
    connection **links;
    size_t n_links, links_capacity;
    struct pollfd *polled;
    source sources[SOURCES];
    int n_sources;
    topic topics[TOPICS];
    int n_topics;
    char plot_topic[TOPIC_SIZE], event_topic[TOPIC_SIZE];
    int64_t plot_seq, event_seq, status_seq, retry_at[2];
    int plot_announced, told_of_registry;
    uint64_t reasons[REASONS]; /* refusals of commands that were printed, as numbers */
    int n_reasons;
    struct {
        char name[ARMSWING_NAME];
        double value;
    } plotted[PLOTTED];
    int n_plotted;
    int began;       /* index of the topic of the message that is being written, -1 for none */
    buffer message;  /* that is being written */
    buffer outgoing; /* messages of a turn, as pairs of the reply */
    uint32_t n_outgoing;
    int64_t turn; /* number of the latest turn */
    buffer last_request, last_reply;
    double time;
    int64_t ticks, tick_at;
    const char *state;
    int registered, seen_news, stopping, exit_code;
    char reason[256], refusal[256];
    char stopped[256];    /* reason of an emergency stop, "" for none */
    uint64_t stop_calls;  /* number of `estop` calls */
    uint64_t call_id, received, sent, lost, refused, overruns, turns, bins[BINS];
    int64_t longest_ns;
    FILE *times;
};

static volatile sig_atomic_t stop_asked = 0;

static void ask_to_stop(int number) {
    (void)number;
    stop_asked = 1;
}

static int64_t nanoseconds(clockid_t clock) {
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? (int64_t)now.tv_sec * 1000000000 + now.tv_nsec : 0;
}

static int64_t milliseconds(void) { return nanoseconds(CLOCK_MONOTONIC) / 1000000; }

double armswing_time(const armswing_client *client) { return client->time; }
const char *armswing_name(const armswing_client *client) { return client->name; }
const char *armswing_robot(const armswing_client *client) { return client->robot; }

void armswing_warn(armswing_client *client, const char *text) {
    fprintf(stderr, "WARNING %s: %s\n", client->name, text);
}

void armswing_fail(armswing_client *client, const char *reason) {
    if (client->stopping && client->exit_code) return;
    client->stopping = 1, client->exit_code = 1;
    copy_text(client->reason, sizeof client->reason, reason, strlen(reason));
    fprintf(stderr, "error: %s: %s\n", client->name, reason);
}

static void refuse(armswing_client *client, const char *where, const char *reason) {
    client->refused++;
    join_text(client->refusal, sizeof client->refusal, where, ": ", reason, (char *)NULL);
    if ((client->refused & (client->refused - 1)) == 0) /* the 1st, 2nd, 4th, 8th ... */
        fprintf(stderr, "WARNING %s: dropped %llu: %s\n", client->name, (unsigned long long)client->refused,
                client->refusal);
}

/* -- ZMTP 3.0, mechanism NULL on this computer and CURVE to others */

static void put_frame(buffer *to, unsigned flags, const void *data, size_t size) {
    put_byte(to, flags | (size > 255 ? 2U : 0U));
    put_big_endian(to, size, size > 255 ? 8 : 1);
    put_bytes(to, data, size);
}

static void put_property(buffer *to, const char *name, const char *value) {
    put_byte(to, (unsigned)strlen(name));
    put_bytes(to, name, strlen(name));
    put_big_endian(to, strlen(value), 4);
    put_bytes(to, value, strlen(value));
}

static void flush_link(connection *link) {
    while (link->out.start < link->out.size && !link->broken) {
        const ssize_t count =
            send(link->fd, link->out.data + link->out.start, link->out.size - link->out.start, MSG_NOSIGNAL);
        if (count > 0) link->out.start += (size_t)count;
        else if (count < 0 && errno == EINTR) continue;
        else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
        else link->broken = 1;
    }
    if (link->out.start == link->out.size) clear(&link->out);
}

/* The properties of our end of a connection, for its handshake. */
static void put_metadata(buffer *to, role of) {
    put_property(to, "Socket-Type", SOCKET_TYPE[of]);
    if (of == SERVICE || of == STEP || of == REGISTRY || of == GRANT) put_property(to, "Identity", "");
}

/* Write a frame to a connection, encrypted to another computer. flags: 1 more frames follow, 4 a command. */
static void put_link_frame(connection *link, unsigned flags, const void *data, size_t size) {
    unsigned char *to;
    if (!link->encrypted) {
        put_frame(&link->out, flags, data, size);
        return;
    }
    put_byte(&link->out, size + CURVE_MESSAGE > 255 ? 2 : 0);
    put_big_endian(&link->out, size + CURVE_MESSAGE, size + CURVE_MESSAGE > 255 ? 8 : 1);
    to = room(&link->out, size + CURVE_MESSAGE);
    curve_encrypt(&link->curve, (flags & 1) | (flags & 4 ? 2U : 0U), data, size, to);
    link->out.size += size + CURVE_MESSAGE;
}

/* Add a connection. server_key: public key of a peer on another computer that we connect to, else NULL; encrypted:
 * whether the peer is on another computer. */
static connection *add_link(armswing_client *client, int fd, role of, int index, int encrypted,
                            const unsigned char *server_key) {
    static const unsigned char signature[12] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0};
    unsigned char greeting[64] = {0};
    connection *link = grown(NULL, sizeof *link);
    memset(link, 0, sizeof *link);
    link->fd = fd, link->role = of, link->source = index;
    link->encrypted = encrypted, link->accepted = of == DATA || of == SERVICE || of == STEP;
    link->opened_at = link->heard_at = milliseconds(), link->kind = NO_ZMTP;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    memcpy(greeting, signature, sizeof signature);
    memcpy(greeting + 12, encrypted ? "CURVE" : "NULL", encrypted ? 5 : 4);
    if (encrypted) curve_begin(&link->curve, server_key), greeting[32] = link->accepted ? 1 : 0;
    put_bytes(&link->out, greeting, sizeof greeting);
    if (!encrypted) {
        buffer ready = {NULL, 0, 0, 0};
        put_byte(&ready, 5), put_bytes(&ready, "READY", 5), put_metadata(&ready, of);
        put_frame(&link->out, 4, ready.data, ready.size);
        free(ready.data);
    }
    if (client->n_links == client->links_capacity) {
        client->links_capacity = 2 * client->links_capacity + 16;
        client->links = grown(client->links, client->links_capacity * sizeof *client->links);
        client->polled = grown(client->polled, (client->links_capacity + 2 * (STEP + 1)) * sizeof *client->polled);
    }
    client->links[client->n_links++] = link;
    flush_link(link);
    return link;
}

/* Count a connection from another computer that ended before its handshake was over. */
static void reject(armswing_client *client, const connection *link) {
    static const char *const why[] = {"a key that is not allowed, or encrypted for another key than this computer's; "
                                      "'armswing keys allow NAME KEY' lets a key in", "no key", "not our protocol"};
    client->rejected[link->kind]++, client->n_rejected++;
    if ((client->n_rejected & (client->n_rejected - 1)) == 0) /* the 1st, 2nd, 4th, 8th ... */
        fprintf(stderr, "WARNING %s: rejected %llu connections, the last from %s: %s\n", client->name,
                (unsigned long long)client->n_rejected, link->peer, why[link->kind]);
}

static void drop_link(armswing_client *client, size_t index) {
    connection *link = client->links[index];
    const int64_t retry_at = milliseconds() + (link->encrypted ? REMOTE_RECONNECT_MS : RECONNECT_MS);
    if (link->role == SOURCE && link->source < client->n_sources) client->sources[link->source].retry_at = retry_at;
    if (link->role == REGISTRY || link->role == NEWS) client->retry_at[link->role == NEWS] = retry_at;
    if (link->encrypted && link->accepted && !link->ready && link->kind < KINDS) reject(client, link);
    close(link->fd);
    free(link->in.data), free(link->out.data), free(link->topics.data), free(link->plain.data), free(link);
    client->links[index] = client->links[--client->n_links];
}

static int address_of(struct sockaddr_un *address, const char *path) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    return copy_text(address->sun_path, sizeof address->sun_path, path, strlen(path));
}

/* A numeric IP address and a port as an address of a socket; its size, 0 for other text. */
static socklen_t internet_address(struct sockaddr_storage *to, const char *ip, unsigned port) {
    struct sockaddr_in *four = (struct sockaddr_in *)to;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;
    memset(to, 0, sizeof *to);
    if (inet_pton(AF_INET, ip, &four->sin_addr) == 1) {
        four->sin_family = AF_INET, four->sin_port = htons((uint16_t)port);
        return sizeof *four;
    }
    if (inet_pton(AF_INET6, ip, &six->sin6_addr) != 1) return 0;
    six->sin6_family = AF_INET6, six->sin6_port = htons((uint16_t)port);
    return sizeof *six;
}

/* The parts of tcp://ADDRESS:PORT#KEY; 0 for other text. */
static int split_endpoint(const char *endpoint, char *ip, unsigned *port, unsigned char *key) {
    const char *sign = strchr(endpoint, '#'), *colon = sign;
    const char *begin = endpoint + 6;
    size_t length;
    if (strncmp(endpoint, "tcp://", 6) != 0 || sign == NULL) return 0;
    while (colon > begin && *colon != ':') colon--;
    if (colon == begin) return 0;
    length = (size_t)(colon - begin);
    if (length > 2 && begin[0] == '[' && begin[length - 1] == ']') begin++, length -= 2;
    *port = (unsigned)strtoul(colon + 1, NULL, 10);
    return *port > 0 && *port < 65536 && copy_text(ip, ADDRESS_SIZE, begin, length) &&
           curve_parse_key(key, sign + 1, strlen(sign + 1));
}

/* Connect to a computer whose key is allowed; NULL with the reason in `line`. The handshake follows. */
static connection *connect_remote(armswing_client *client, const char *endpoint, role of, int index, char *line,
                                  size_t size) {
    unsigned char key[CURVE_KEY];
    char ip[ADDRESS_SIZE], reason[512];
    struct sockaddr_storage address;
    socklen_t length = 0;
    unsigned port = 0;
    const int on = 1;
    int fd;
    if (!CURVE_BUILT) {
        snprintf(line, size, "%.120s needs keys, and this program was built without them; build it with 'make CURVE=1'",
                 endpoint);
        return NULL;
    }
    if (split_endpoint(endpoint, ip, &port, key)) length = internet_address(&address, ip, port);
    if (length == 0) {
        snprintf(line, size, "address '%.150s' is refused; it is not written as tcp://10.0.0.1:17400#KEY", endpoint);
        return NULL;
    }
    if (!curve_is_allowed(key, reason, sizeof reason)) {
        snprintf(line, size, "cannot connect to 'tcp://%s:%u': %.400s", ip, port, reason);
        return NULL;
    }
    fd = socket(address.ss_family, SOCK_STREAM, 0);
    if (fd >= 0) {
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    if (fd < 0 || (connect(fd, (struct sockaddr *)&address, length) != 0 && errno != EINPROGRESS)) {
        snprintf(line, size, "cannot connect to 'tcp://%s:%u': %s", ip, port, strerror(errno));
        if (fd >= 0) close(fd);
        return NULL;
    }
    return add_link(client, fd, of, index, 1, key);
}

static connection *connect_to(armswing_client *client, const char *path, role of, int index) {
    struct sockaddr_un address;
    const int fd = address_of(&address, path) ? socket(AF_UNIX, SOCK_STREAM, 0) : -1;
    if (fd < 0) return NULL;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return NULL;
    }
    return add_link(client, fd, of, index, 0, NULL);
}

/* Send one message of one or two frames; dropped where the peer is too slow. */
static void send_frames(connection *link, const void *first, size_t first_size, const void *second, size_t size) {
    if (link->out.size - link->out.start > (link->encrypted ? (size_t)REMOTE_BACKLOG : (size_t)LARGEST_BACKLOG)) return;
    if (first != NULL) put_link_frame(link, second != NULL ? 1 : 0, first, first_size);
    if (second != NULL) put_link_frame(link, 0, second, size);
    flush_link(link);
}

static connection *link_of(armswing_client *client, role of, int index) {
    size_t i;
    for (i = 0; i < client->n_links; i++) {
        connection *link = client->links[i];
        if (link->role == of && (of != SOURCE || link->source == index) && !link->broken) return link;
    }
    return NULL;
}

/* -- messages of the node */

static int subscribed(const connection *link, const char *full) {
    size_t at = link->topics.start;
    while (at < link->topics.size) { /* ZeroMQ matches prefixes */
        const char *prefix = (const char *)link->topics.data + at;
        const size_t length = strlen(prefix);
        if (strncmp(full, prefix, length) == 0) return 1;
        at += length + 1;
    }
    return 0;
}

static void to_subscribers(armswing_client *client, const char *full, const unsigned char *data, size_t size) {
    size_t i;
    for (i = 0; i < client->n_links; i++) {
        connection *link = client->links[i];
        if (link->role == DATA && link->ready && !link->broken && subscribed(link, full))
            send_frames(link, full, strlen(full), data, size);
    }
}

static void publish(armswing_client *client, const char *full, const buffer *message) {
    const size_t size = message->size - message->start;
    const unsigned char *data = message->data + message->start;
    if (size > LARGEST_MESSAGE) {
        refuse(client, full, "a message above 1048576 bytes");
        return;
    }
    client->sent++;
    if (client->participant) { /* also what is published before the first turn */
        pack_array(&client->outgoing, 2);
        pack_text(&client->outgoing, full);
        pack_bytes(&client->outgoing, data, size);
        client->n_outgoing++;
    } else {
        to_subscribers(client, full, data, size);
    }
}

static void put_stamp(armswing_client *client, buffer *to, int64_t seq) {
    pack_text(to, "timestamp"), pack_number(to, client->time);
    pack_text(to, "seq"), pack_integer(to, seq);
    pack_text(to, "sent_ns"), pack_integer(to, client->lockstep ? 0 : nanoseconds(CLOCK_REALTIME));
}

int armswing_begin(armswing_client *client, const char *name, uint32_t n_fields) {
    int i;
    client->began = -1;
    for (i = 0; i < client->n_topics; i++)
        if (client->topics[i].published && strcmp(client->topics[i].name, name) == 0) client->began = i;
    if (client->began < 0 || client->topics[client->began].full[0] == '\0') {
        refuse(client, name, client->began < 0 ? "not in `publishes`" : "no robot is known yet");
        client->began = -1;
        return -1;
    }
    clear(&client->message);
    pack_map(&client->message, (size_t)n_fields + 3);
    put_stamp(client, &client->message, ++client->topics[client->began].seq);
    return 0;
}

void armswing_end(armswing_client *client) {
    const armswing_value whole = {client->message.data, client->message.data + client->message.size};
    if (client->began < 0) return;
    if (is_whole(whole)) publish(client, client->topics[client->began].full, &client->message);
    else refuse(client, client->topics[client->began].name, "fewer or more fields than `armswing_begin` was told");
    client->began = -1;
}

void armswing_put_text(armswing_client *client, const char *text) { pack_text(&client->message, text); }
void armswing_put_number(armswing_client *client, double number) { pack_number(&client->message, number); }
void armswing_put_integer(armswing_client *client, int64_t number) { pack_integer(&client->message, number); }
void armswing_put_array(armswing_client *client, uint32_t length) { pack_array(&client->message, length); }
void armswing_put_map(armswing_client *client, uint32_t length) { pack_map(&client->message, length); }
void armswing_put_nil(armswing_client *client) { pack_nil(&client->message); }
void armswing_put_bool(armswing_client *client, int truth) { pack_bool(&client->message, truth); }

int armswing_command(armswing_client *client, const char *name, const char *mode, size_t n, const char *const *actuators,
                     const double *values, int64_t state_seq) {
    buffer *to = &client->message;
    size_t i;
    for (i = 0; i < n; i++)
        if (!isfinite(values[i])) {
            refuse(client, name, "a value that is not finite");
            return -1;
        }
    if (armswing_begin(client, name, 5) != 0) return -1;
    pack_text(to, "mode"), pack_text(to, mode);
    pack_text(to, "name"), pack_array(to, n);
    for (i = 0; i < n; i++) pack_text(to, actuators[i]);
    pack_text(to, "value"), pack_array(to, n);
    for (i = 0; i < n; i++) pack_number(to, values[i]);
    pack_text(to, "state_seq");
    if (state_seq < 0) pack_nil(to);
    else pack_integer(to, state_seq);
    pack_text(to, "clock"), pack_text(to, "");
    armswing_end(client);
    return 0;
}

void armswing_plot(armswing_client *client, const char *name, double value) {
    int i = 0;
    while (i < client->n_plotted && strcmp(client->plotted[i].name, name) != 0) i++;
    if (i == PLOTTED || !copy_text(client->plotted[i].name, ARMSWING_NAME, name, strlen(name))) {
        refuse(client, name, "a node plots 64 values with names below 96 bytes at most");
        return;
    }
    if (i == client->n_plotted) client->n_plotted++;
    client->plotted[i].value = value;
}

int armswing_index(const armswing_state *state, const char *name) {
    size_t i;
    for (i = 0; i < state->n; i++)
        if (strcmp(state->name[i], name) == 0) return (int)i;
    return -1;
}

/* Read an array of finite numbers; returns how many, -1 for anything else. */
static int numbers(armswing_value array, double *to, size_t most) {
    const size_t n = armswing_length(array);
    armswing_value at = armswing_first(array);
    size_t i;
    if (head_of(array).kind != ARRAY || n > most) return -1;
    for (i = 0; i < n; i++, at = armswing_next(at))
        if (!armswing_number(at, &to[i]) || !isfinite(to[i])) return -1;
    return (int)n;
}

int armswing_read_state(const armswing_message *message, armswing_state *state) {
    const armswing_value names = armswing_get(message->fields, "name");
    const armswing_value efforts = armswing_get(message->fields, "effort");
    armswing_value at = armswing_first(names);
    size_t i, length;
    const char *text;
    int n_efforts;
    memset(state->effort, 0, sizeof state->effort);
    state->timestamp = 0.0, state->seq = 0, state->n = armswing_length(names);
    if (head_of(names).kind != ARRAY || state->n > ARMSWING_JOINTS) return -1;
    for (i = 0; i < state->n; i++, at = armswing_next(at))
        if (!armswing_text(at, &text, &length) || !copy_text(state->name[i], ARMSWING_NAME, text, length)) return -1;
    armswing_number(armswing_get(message->fields, "timestamp"), &state->timestamp);
    armswing_integer(armswing_get(message->fields, "seq"), &state->seq);
    n_efforts = efforts.at == NULL ? 0 : numbers(efforts, state->effort, ARMSWING_JOINTS);
    return numbers(armswing_get(message->fields, "position"), state->position, ARMSWING_JOINTS) == (int)state->n &&
                   numbers(armswing_get(message->fields, "velocity"), state->velocity, ARMSWING_JOINTS) ==
                       (int)state->n &&
                   (n_efforts == 0 || n_efforts == (int)state->n)
               ? 0
               : -1;
}

static void register_node(armswing_client *client, const char *call);

static void publish_plotted(armswing_client *client) {
    buffer *to = &client->message;
    int i;
    if (client->n_plotted == 0 || client->plot_topic[0] == '\0') return;
    if (!client->plot_announced) client->plot_announced = 1, register_node(client, "register");
    clear(to);
    pack_map(to, 4), put_stamp(client, to, ++client->plot_seq);
    pack_text(to, "values"), pack_map(to, (size_t)client->n_plotted);
    for (i = 0; i < client->n_plotted; i++)
        pack_text(to, client->plotted[i].name), pack_number(to, client->plotted[i].value);
    client->n_plotted = 0;
    publish(client, client->plot_topic, to);
}

static void note_duration(armswing_client *client, int64_t ns) {
    unsigned octave = 0;
    uint64_t left = ns > 0 ? (uint64_t)ns : 0;
    if (client->times != NULL) fprintf(client->times, "%lld\n", (long long)ns);
    if (ns > client->longest_ns) client->longest_ns = ns;
    while (left >= 32 && octave < 38) left >>= 1, octave++; /* 16 .. 31 in each octave */
    if (left > 31) left = 31;
    client->bins[octave * 16 + left]++;
    client->turns++;
}

/* Duration below which a share of the turns stayed, s; upper end of the bin, 0 without turns. */
static double duration_quantile(const armswing_client *client, double share) {
    uint64_t count = 0;
    int i;
    for (i = 0; i < BINS; i++) {
        count += client->bins[i];
        if (count > 0 && (double)count >= share * (double)client->turns) {
            const int octave = i < 32 ? 0 : i / 16 - 1;
            return 1e-9 * ldexp((double)(i - 16 * octave + 1), octave);
        }
    }
    return 0.0;
}

/* Hand a received message to the node. */
static void deliver(armswing_client *client, int index, armswing_value fields) {
    armswing_message message;
    if (client->stopped[0] && strcmp(client->topics[index].name, "command") == 0) return;
    message.name = client->topics[index].name, message.topic = client->topics[index].full, message.fields = fields;
    client->received++;
    if (client->node->on_message != NULL) client->node->on_message(client, &message);
    publish_plotted(client);
}

static void set_time(armswing_client *client, double time) {
    if (time < client->time) {
        client->time = time;
        client->ticks = client->node->rate_hz > 0.0 ? (int64_t)ceil(time * client->node->rate_hz - 1e-6) : 0;
        if (client->node->on_reset != NULL) client->node->on_reset(client, time);
        publish_plotted(client);
    }
    client->time = time;
}

static void tick(armswing_client *client, double now) {
    if (client->node->on_tick != NULL) client->node->on_tick(client, now);
    publish_plotted(client);
}

static int subscription(const armswing_client *client, const char *text, size_t length) {
    int i;
    for (i = 0; i < client->n_topics; i++) {
        const topic *each = &client->topics[i];
        if (!each->published && length > 0 && strlen(each->full) == length && memcmp(each->full, text, length) == 0)
            return i;
    }
    return -1;
}

/* -- status */

static void put_status(armswing_client *client, buffer *to, int64_t seq) {
    const struct {
        const char *name;
        uint64_t count;
    } counters[] = {{"received", client->received}, {"sent", client->sent},         {"lost", client->lost},
                    {"refused", client->refused},   {"overruns", client->overruns}, {"turns", client->turns},
                    {"emergency_stops", client->stop_calls}};
    const size_t n = sizeof counters / sizeof *counters - (client->stop_calls == 0);
    size_t i;
    pack_map(to, 12), put_stamp(client, to, seq);
    pack_text(to, "node"), pack_text(to, client->name);
    pack_text(to, "state"), pack_text(to, client->state);
    pack_text(to, "counters"), pack_map(to, n);
    for (i = 0; i < n; i++)
        pack_text(to, counters[i].name), pack_integer(to, (int64_t)counters[i].count);
    pack_text(to, "timing"), pack_map(to, client->turns ? 3 : 0);
    if (client->turns) {
        pack_text(to, "turn_p50_s"), pack_number(to, duration_quantile(client, 0.5));
        pack_text(to, "turn_p99_s"), pack_number(to, duration_quantile(client, 0.99));
        pack_text(to, "turn_max_s"), pack_number(to, 1e-9 * (double)client->longest_ns);
    }
    pack_text(to, "detail"), pack_text(to, client->reason);
    pack_text(to, "refusal"), pack_text(to, client->refusal);
    pack_text(to, "figures"), pack_map(to, 0);
    pack_text(to, "verdict"), pack_nil(to);
    pack_text(to, "emergency"), pack_text(to, client->stopped);
}

static void publish_status(armswing_client *client) {
    buffer status = {NULL, 0, 0, 0};
    put_status(client, &status, ++client->status_seq);
    to_subscribers(client, "status", status.data, status.size);
    free(status.data);
}

static void set_state(armswing_client *client, const char *state) {
    client->state = state;
    publish_status(client);
    register_node(client, "register");
}

/* -- the registry */

static void put_endpoints(const armswing_client *client, buffer *to) {
    static const char *const use[] = {"data", "service", "step"};
    const int n = client->participant ? 3 : 2, remote = client->remote_path[DATA][0] ? n : 0;
    char endpoint[PATH_SIZE + 8];
    int i;
    pack_text(to, "endpoints"), pack_map(to, (size_t)n);
    for (i = 0; i < n; i++) {
        join_text(endpoint, sizeof endpoint, "ipc://", client->path[i], (char *)NULL);
        pack_text(to, use[i]), pack_text(to, endpoint);
    }
    pack_text(to, "remote_endpoints"), pack_map(to, (size_t)remote);
    for (i = 0; i < remote; i++) pack_text(to, use[i]), pack_text(to, client->remote_path[i]);
    pack_text(to, "rejected_connections"), pack_map(to, KINDS);
    for (i = 0; i < KINDS; i++) pack_text(to, KIND_NAME[i]), pack_integer(to, (int64_t)client->rejected[i]);
}

/* Ask the simulation to let a node outside of the launch file publish the commands that the registry has refused. */
static int ask_for_grant(armswing_client *client, const char *refusal, size_t length) {
    char text[512] = "", line[640] = "";
    int i;
    copy_text(text, sizeof text, refusal, length < sizeof text ? length : sizeof text - 1);
    if (strstr(text, "no grant of the simulation") == NULL) return 0;
    if (link_of(client, GRANT, 0) != NULL) return 1;
    for (i = 0; i < client->n_topics; i++) {
        if (!client->topics[i].published || !client->topics[i].full[0] || strstr(text, client->topics[i].full) == NULL)
            continue;
        client->granted = i;
        if (strncmp(client->simulation, "tcp://", 6) == 0)
            connect_remote(client, client->simulation, GRANT, 0, line, sizeof line);
        else if (client->simulation[0])
            connect_to(client, client->simulation + 6, GRANT, 0);
        if (line[0]) refuse(client, client->topics[i].full, line);
        return 1; /* without a connection, the next registration asks again */
    }
    return 0;
}

static void send_grant_call(armswing_client *client, connection *link) {
    buffer to = {NULL, 0, 0, 0};
    pack_map(&to, 3);
    pack_text(&to, "id"), pack_integer(&to, (int64_t)++client->call_id);
    pack_text(&to, "call"), pack_text(&to, "take_over");
    pack_text(&to, "args"), pack_map(&to, 2);
    pack_text(&to, "node"), pack_text(&to, client->name);
    pack_text(&to, "topic"), pack_text(&to, client->topics[client->granted].full);
    send_frames(link, to.data, to.size, NULL, 0);
    free(to.data);
}

/* Call `register`, which renews the entry too, or `unregister`. */
static void register_node(armswing_client *client, const char *call) {
    connection *link = link_of(client, REGISTRY, 0);
    buffer to = {NULL, 0, 0, 0};
    int i, published = 1 + client->plot_announced, subscriptions = 0;
    if (link == NULL || !link->ready || (client->registry[0][0] && !client->checked)) return;
    for (i = 0; i < client->n_topics; i++) {
        if (client->topics[i].full[0] == '\0') continue;
        if (client->topics[i].published) published++;
        else subscriptions++;
    }
    pack_map(&to, 3);
    pack_text(&to, "id"), pack_integer(&to, (int64_t)++client->call_id);
    pack_text(&to, "call"), pack_text(&to, call);
    pack_text(&to, "args"), pack_map(&to, 11);
    pack_text(&to, "name"), pack_text(&to, client->name);
    pack_text(&to, "protocol"), pack_integer(&to, PROTOCOL);
    pack_text(&to, "pid"), pack_integer(&to, (int64_t)getpid());
    pack_text(&to, "host"), pack_text(&to, client->host);
    pack_text(&to, "state"), pack_text(&to, client->state);
    pack_text(&to, "lossless"), pack_bool(&to, client->node->lossless);
    put_endpoints(client, &to);
    pack_text(&to, "publishes"), pack_array(&to, (size_t)published);
    for (i = 0; i < client->n_topics; i++)
        if (client->topics[i].published && client->topics[i].full[0]) pack_text(&to, client->topics[i].full);
    pack_text(&to, "status");
    if (client->plot_announced) pack_text(&to, client->plot_topic);
    pack_text(&to, "subscribes"), pack_array(&to, (size_t)subscriptions);
    for (i = 0; i < client->n_topics; i++)
        if (!client->topics[i].published && client->topics[i].full[0]) pack_text(&to, client->topics[i].full);
    send_frames(link, to.data, to.size, NULL, 0);
    free(to.data);
}

/* The simulation's reply to the call for a grant. */
static void take_grant(armswing_client *client, connection *link, armswing_value reply) {
    const head ok = head_of(armswing_get(reply, "ok"));
    const char *text = "no reason";
    size_t length = strlen(text);
    link->broken = 1;
    if (ok.kind != BOOL || ok.whole) {
        register_node(client, "register");
        return;
    }
    armswing_text(armswing_get(reply, "error"), &text, &length);
    fprintf(stderr, "error: the simulation rejects '%s': %.*s\n", client->topics[client->granted].full,
            (int)(length > 400 ? 400 : length), text);
    client->stopping = 1, client->exit_code = 2;
}

static void take_reply(armswing_client *client, armswing_value reply) {
    const head ok = head_of(armswing_get(reply, "ok"));
    const char *text = "no reason";
    size_t length = strlen(text);
    int64_t id = 0;
    if (armswing_integer(armswing_get(reply, "id"), &id) && client->removal_id && (uint64_t)id == client->removal_id)
        return;
    if (ok.kind != BOOL || ok.whole) {
        client->registered = 1;
        return;
    }
    armswing_text(armswing_get(reply, "error"), &text, &length);
    if (ask_for_grant(client, text, length)) return;
    fprintf(stderr, "error: the registry refuses %s: %.*s\n", client->name, (int)(length > 400 ? 400 : length), text);
    client->stopping = 1, client->exit_code = 2;
}

/* The full name of a topic: those of the table without a robot, and of other namespaces, stay. */
static void resolve_topics(armswing_client *client) {
    int i;
    for (i = 0; i < client->n_topics; i++) {
        topic *each = &client->topics[i];
        if (each->full[0]) continue;
        if (strcmp(each->name, "status") == 0 || strcmp(each->name, "clock") == 0 || strchr(each->name, '/') != NULL)
            join_text(each->full, sizeof each->full, each->name, (char *)NULL);
        else if (client->robot[0])
            join_text(each->full, sizeof each->full, client->robot, "/", each->name, (char *)NULL);
    }
    if (client->robot[0] && client->plot_topic[0] == '\0') {
        const char *slash = strrchr(client->name, '/');
        join_text(client->plot_topic, sizeof client->plot_topic, client->robot, "/", slash ? slash + 1 : client->name,
                  "/plot", (char *)NULL);
        join_text(client->event_topic, sizeof client->event_topic, client->robot, "/event", (char *)NULL);
    }
}

/* Whether the client subscribes to a topic over sockets; in lockstep the robots' topics arrive in turns. */
static int wants_stream(const armswing_client *client, int index, const char *publisher) {
    if (client->topics[index].published || client->topics[index].full[0] == '\0') return 0;
    if (client->participant && strcmp(publisher, "sim") == 0) return 0;
    return !client->lockstep || strchr(client->topics[index].full, '/') == NULL;
}

static void subscribe(armswing_client *client, connection *link) {
    char frame[TOPIC_SIZE + 1] = "\x01";
    int i;
    for (i = 0; i < client->n_topics; i++)
        if (wants_stream(client, i, client->sources[link->source].name)) {
            join_text(frame + 1, sizeof frame - 1, client->topics[i].full, (char *)NULL);
            send_frames(link, frame, strlen(frame), NULL, 0);
        }
    if (!client->lockstep && client->event_topic[0] && strcmp(client->sources[link->source].name, "sim") == 0) {
        join_text(frame + 1, sizeof frame - 1, client->event_topic, (char *)NULL); /* has the refused commands */
        send_frames(link, frame, strlen(frame), NULL, 0);
    }
    send_frames(link, "\x01~", 2, NULL, 0);
}

static void follow(armswing_client *client, int index) {
    source *each = &client->sources[index];
    connection *link = link_of(client, SOURCE, index);
    char line[640] = "";
    if (link == NULL && milliseconds() >= each->retry_at) {
        const int remote = strncmp(each->address, "tcp://", 6) == 0;
        link = remote ? connect_remote(client, each->address, SOURCE, index, line, sizeof line)
                      : connect_to(client, each->address + 6, SOURCE, index);
        each->retry_at = link != NULL ? 0 : milliseconds() + (remote ? 10 * REMOTE_RECONNECT_MS : RECONNECT_MS);
        if (line[0]) refuse(client, each->name, line);
    }
}

/* Note a publisher of a topic that the client wants. */
static void note_source(armswing_client *client, const char *name, armswing_value endpoint, const unsigned char *owns) {
    char address[ENDPOINT_SIZE] = "";
    const char *text = "";
    size_t length = 0;
    int i;
    armswing_text(endpoint, &text, &length);
    if (length < 7 || (memcmp(text, "ipc://", 6) != 0 && memcmp(text, "tcp://", 6) != 0) ||
        !copy_text(address, sizeof address, text, length)) {
        refuse(client, name, "it has no address, ipc or tcp with a key, for this computer");
        return;
    }
    for (i = 0; i < client->n_sources && strcmp(client->sources[i].name, name) != 0; i++) continue;
    if (i == SOURCES) return;
    if (i == client->n_sources) {
        memset(&client->sources[i], 0, sizeof client->sources[i]);
        join_text(client->sources[i].name, ARMSWING_NAME, name, (char *)NULL);
        client->n_sources++;
    }
    client->sources[i].listed = 1;
    memcpy(client->sources[i].owns, owns, sizeof client->sources[i].owns);
    if (strcmp(client->sources[i].address, address) != 0) { /* a new process */
        connection *link = link_of(client, SOURCE, i);
        if (link != NULL) link->broken = 1;
        memset(client->sources[i].seq, 0, sizeof client->sources[i].seq);
        join_text(client->sources[i].address, ENDPOINT_SIZE, address, (char *)NULL);
        client->sources[i].retry_at = 0;
    }
    follow(client, i);
}

static void find_robot(armswing_client *client, armswing_value entry) {
    const armswing_value topics = armswing_get(entry, "publishes");
    armswing_value at = armswing_first(topics);
    size_t i;
    const char *text;
    size_t length;
    for (i = 0; i < armswing_length(topics) && at.at != NULL; i++, at = armswing_next(at)) {
        if (!armswing_text(at, &text, &length) || length <= 6 || memcmp(text + length - 6, "/state", 6) != 0) continue;
        if (!copy_text(client->robot, sizeof client->robot, text, length - 6)) continue;
        resolve_topics(client);
        fprintf(stderr, "%s: joined robot %s\n", client->name, client->robot);
        register_node(client, "register");
        return;
    }
}

/* Remove the entry of an ended process of this computer with this node's name. A registry on another computer cannot
 * know that the process has ended. */
static void forget_the_dead(armswing_client *client, armswing_value nodes) {
    const connection *link = link_of(client, REGISTRY, 0);
    armswing_value entry = armswing_first(nodes);
    size_t i;
    if (client->checked || link == NULL || !link->ready) return;
    client->checked = 1;
    for (i = 0; i < armswing_length(nodes) && entry.at != NULL; i++, entry = armswing_next(entry)) {
        int64_t pid = 0;
        if (!armswing_is_text(armswing_get(entry, "name"), client->name) ||
            !armswing_is_text(armswing_get(entry, "host"), client->host) ||
            !armswing_integer(armswing_get(entry, "pid"), &pid) || pid <= 0 || pid == (int64_t)getpid())
            continue;
        if (kill((pid_t)pid, 0) == 0 || errno != ESRCH) continue;
        register_node(client, "unregister");
        client->removal_id = client->call_id;
    }
    register_node(client, "register");
}

static void take_news(armswing_client *client, armswing_value news) {
    const armswing_value nodes = armswing_get(news, "nodes");
    armswing_value entry = armswing_first(nodes);
    size_t i, j;
    int k;
    if (client->stopping) return;
    if (client->registry[0][0]) forget_the_dead(client, nodes);
    for (k = 0; k < client->n_sources; k++) client->sources[k].listed = 0;
    for (i = 0; i < armswing_length(nodes) && entry.at != NULL; i++, entry = armswing_next(entry)) {
        const armswing_value topics = armswing_get(entry, "publishes");
        armswing_value at = armswing_first(topics);
        const int here = armswing_is_text(armswing_get(entry, "host"), client->host);
        const armswing_value endpoints = armswing_get(entry, here ? "endpoints" : "remote_endpoints");
        char name[ARMSWING_NAME];
        const char *text;
        size_t length;
        unsigned char owns[TOPICS] = {0};
        int wanted = 0;
        if (!armswing_text(armswing_get(entry, "name"), &text, &length) ||
            !copy_text(name, sizeof name, text, length) || strcmp(name, client->name) == 0)
            continue;
        if (strcmp(name, "sim") == 0 && armswing_text(armswing_get(endpoints, "service"), &text, &length) && length > 6)
            copy_text(client->simulation, sizeof client->simulation, text, length);
        if (!client->launched && client->robot[0] == '\0' && strcmp(name, "sim") == 0) find_robot(client, entry);
        for (j = 0; j < armswing_length(topics) && at.at != NULL; j++, at = armswing_next(at))
            if (armswing_text(at, &text, &length)) {
                const int index = subscription(client, text, length);
                if (index >= 0) owns[index] = 1;
                wanted = wanted || (index >= 0 && wants_stream(client, index, name));
            }
        if (wanted) note_source(client, name, armswing_get(endpoints, "data"), owns);
    }
    for (k = 0; k < client->n_sources; k++)
        if (!client->sources[k].listed) {
            connection *link = link_of(client, SOURCE, k);
            if (link != NULL) link->broken = 1;
            client->sources[k].address[0] = '\0';
        }
    client->seen_news = 1;
}

static int is_ready(armswing_client *client) {
    int i;
    if (!client->registered || !client->seen_news || (!client->launched && client->robot[0] == '\0')) return 0;
    for (i = 0; i < client->n_sources; i++) {
        const connection *link = client->sources[i].listed ? link_of(client, SOURCE, i) : NULL;
        if (client->sources[i].listed && (link == NULL || !link->confirmed)) return 0;
    }
    return 1;
}

/* -- services */

static armswing_parameter *parameter_named(const armswing_client *client, const char *text, size_t length) {
    armswing_parameter *each = client->node->parameters;
    for (; each != NULL && each->name != NULL; each++)
        if (strlen(each->name) == length && memcmp(each->name, text, length) == 0) return each;
    return NULL;
}

static size_t n_parameters(const armswing_client *client) {
    size_t n = 0;
    while (client->node->parameters != NULL && client->node->parameters[n].name != NULL) n++;
    return n;
}

static void put_parameters(const armswing_client *client, buffer *to) {
    const armswing_parameter *each = client->node->parameters;
    pack_map(to, n_parameters(client));
    for (; each != NULL && each->name != NULL; each++) pack_text(to, each->name), pack_number(to, each->value);
}

static void put_limit(buffer *to, const char *key, double limit) {
    pack_text(to, key);
    if (isfinite(limit)) pack_number(to, limit);
    else pack_nil(to);
}

static void describe_parameters(const armswing_client *client, buffer *to) {
    const armswing_parameter *each = client->node->parameters;
    pack_map(to, n_parameters(client));
    for (; each != NULL && each->name != NULL; each++) {
        pack_text(to, each->name), pack_map(to, 3);
        pack_text(to, "unit"), pack_text(to, each->unit != NULL ? each->unit : "");
        put_limit(to, "low", each->low), put_limit(to, "high", each->high);
    }
}

/* A number as JSON, in its shortest form that reads back as the same number. */
static void json_number(char *to, size_t size, double number) {
    const int power = number == 0.0 ? 0 : (int)floor(log10(fabs(number)));
    int digits = 0;
    do snprintf(to, size, "%.*g", ++digits, number);
    while (digits < 17 && strtod(to, NULL) != number);
    if (power > -5 && power < 16) snprintf(to, size, "%.*f", digits - 1 > power ? digits - 1 - power : 0, number);
    if (strpbrk(to, ".en") == NULL && strlen(to) + 2 < size) strcat(to, ".0");
}

/* The event `set` of a parameter that has changed. */
static void publish_change(armswing_client *client, const armswing_parameter *each, double old) {
    buffer *to = &client->message;
    char text[2][32];
    const char *slash = strrchr(client->name, '/');
    if (client->event_topic[0] == '\0') return;
    json_number(text[0], sizeof text[0], old), json_number(text[1], sizeof text[1], each->value);
    clear(to);
    pack_map(to, 8), put_stamp(client, to, ++client->event_seq);
    pack_text(to, "kind"), pack_text(to, "set");
    pack_text(to, "node"), pack_text(to, slash ? slash + 1 : client->name);
    pack_text(to, "key"), pack_text(to, each->name);
    pack_text(to, "old"), pack_text(to, text[0]);
    pack_text(to, "new"), pack_text(to, text[1]);
    publish(client, client->event_topic, to);
}

/* Why a value cannot be that of a parameter, in `line`; 0 where it can. */
static int unfit(const armswing_client *client, const armswing_parameter *each, double value, char *line, size_t size) {
    if (isfinite(value) && value >= each->low && value <= each->high) return 0;
    snprintf(line, size, "node '%.90s': params: %.90s = %g is not in %g .. %g%s%.20s", client->name, each->name, value,
             each->low, each->high, each->unit != NULL && each->unit[0] ? " " : "", each->unit != NULL ? each->unit : "");
    return 1;
}

/* Change parameters as asked; "" or why they are refused, in `line`. All of them change, or none. */
static void set_parameters(armswing_client *client, armswing_value args, char *line, size_t size) {
    const size_t n = armswing_length(args);
    double before[PARAMETERS], after[PARAMETERS];
    armswing_value at = armswing_first(args);
    const size_t count = n_parameters(client);
    armswing_parameter *all = client->node->parameters, *each;
    const char *text, *refusal = NULL;
    size_t i, length;
    for (i = 0; i < count; i++) before[i] = after[i] = all[i].value;
    for (i = 0; i < n && at.at != NULL; i++) {
        const armswing_value content = armswing_next(at);
        if (!armswing_text(at, &text, &length)) length = 0, text = "";
        each = parameter_named(client, text, length);
        if (each == NULL) {
            snprintf(line, size, "node '%.90s': params: unknown key '%.*s'; its parameters are", client->name,
                     (int)(length > 60 ? 60 : length), text);
            for (each = all; each != NULL && each->name != NULL; each++) {
                const size_t used = strlen(line);
                snprintf(line + used, size - used, "%s%.90s", each == all ? " " : ", ", each->name);
            }
            return;
        }
        if (!armswing_number(content, &after[each - all])) {
            snprintf(line, size, "node '%.90s': params: %.90s must be a number", client->name, each->name);
            return;
        }
        if (unfit(client, each, after[each - all], line, size)) return;
        at = armswing_next(content);
    }
    for (i = 0; i < count; i++) all[i].value = after[i];
    if (client->node->on_parameters != NULL) refusal = client->node->on_parameters(client);
    if (refusal != NULL) {
        for (i = 0; i < count; i++) all[i].value = before[i];
        join_text(line, size, refusal, (char *)NULL);
        return;
    }
    for (i = 0; i < count; i++)
        if (before[i] != after[i]) publish_change(client, &all[i], before[i]);
}

/* Whether the peer is on this computer, or on that of the launch's server and registry. */
static int is_of_launch(const armswing_client *client, const connection *link) {
    char digits[2 * CURVE_KEY + 1];
    const char *sign = strchr(client->registry[0], '#');
    if (!link->encrypted || memcmp(link->curve.peer, curve_own_key(), CURVE_KEY) == 0) return 1;
    curve_write_key(digits, link->curve.peer);
    return sign != NULL && strcmp(sign + 1, digits) == 0;
}

static void publish_stop(armswing_client *client, const char *event, const char *detail) {
    buffer *to = &client->message;
    const char *slash = strrchr(client->name, '/');
    if (client->event_topic[0] == '\0') return;
    clear(to);
    pack_map(to, 6), put_stamp(client, to, ++client->event_seq);
    pack_text(to, "kind"), pack_text(to, event);
    pack_text(to, "node"), pack_text(to, slash ? slash + 1 : client->name);
    pack_text(to, "detail"), pack_text(to, detail);
    publish(client, client->event_topic, to);
}

/* Begin an emergency stop, or end it where `release`; the result, or why it is refused in `line`. */
static void emergency_stop(armswing_client *client, armswing_value args, int release, buffer *result, char *line,
                           size_t size) {
    const armswing_value given = armswing_get(args, "after");
    const int acts = client->node->on_emergency_stop != NULL;
    const char *text = "";
    size_t length = 0;
    int64_t after = 0;
    int i, roles = 0;
    char detail[320];
    for (i = 0; i < client->n_topics; i++) {
        if (!client->topics[i].published && strcmp(client->topics[i].name, "command") == 0) roles |= 1;
        if (client->topics[i].published && strcmp(client->topics[i].name, "measured_state") == 0) roles |= 2;
    }
    if (roles != 3) {
        if (!release) snprintf(line, size, "node '%.90s' drives no robot; send an emergency stop to a driver", client->name);
    } else if (!release) {
        client->stop_calls++;
        if (client->stopped[0] == '\0') {
            armswing_text(armswing_get(args, "reason"), &text, &length);
            if (length > 200) /* at the end of a character of UTF-8 */
                for (length = 200; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;) length--;
            copy_text(client->stopped, sizeof client->stopped, text, length);
            if (client->stopped[0] == '\0') copy_text(client->stopped, sizeof client->stopped, "emergency stop", 14);
            if (acts) client->node->on_emergency_stop(client, 1);
            join_text(detail, sizeof detail, client->stopped, ": commands are held back", (char *)NULL);
            publish_stop(client, "estop", detail);
        }
        pack_text(result, acts ? "the driver stops the robot, and commands are held back"
                               : "commands are held back: the node has no guard");
        return;
    } else if (given.at != NULL && (!armswing_integer(given, &after) || (uint64_t)after != client->stop_calls)) {
        snprintf(line, size, "release: another emergency stop was called meanwhile; to end it, release the robot again");
    } else if (client->stopped[0]) {
        client->stopped[0] = '\0';
        if (acts) client->node->on_emergency_stop(client, 0);
        publish_stop(client, "estop_released", "");
    }
    pack_nil(result);
}

/* Reply to a call. */
static void serve(armswing_client *client, connection *link, armswing_value call, int delimited, int64_t received_ns) {
    const armswing_value id = armswing_get(call, "id"), asked = armswing_get(call, "call");
    const armswing_value args = armswing_get(call, "args"), after = armswing_next(id);
    buffer to = {NULL, 0, 0, 0}, result = {NULL, 0, 0, 0};
    char line[512] = "";
    if (head_of(id).kind != WHOLE || head_of(asked).kind != TEXT || after.at == NULL) {
        refuse(client, "(service)", "not a valid call message");
        return;
    }
    if (armswing_is_text(asked, "clock")) {
        pack_map(&result, 2);
        pack_text(&result, "received_ns"), pack_integer(&result, received_ns);
        pack_text(&result, "answered_ns"), pack_integer(&result, nanoseconds(CLOCK_REALTIME));
    } else if (armswing_is_text(asked, "status")) {
        put_status(client, &result, client->status_seq);
    } else if (armswing_is_text(asked, "shutdown") && !is_of_launch(client, link)) {
        snprintf(line, sizeof line, "only this computer and the host of the launch's server may end its nodes");
        refuse(client, "(service)", line);
    } else if (armswing_is_text(asked, "shutdown")) {
        pack_nil(&result), client->stopping = 1;
    } else if (armswing_is_text(asked, "estop") || armswing_is_text(asked, "release")) {
        emergency_stop(client, args, armswing_is_text(asked, "release"), &result, line, sizeof line);
        publish_plotted(client);
    } else if (armswing_is_text(asked, "get_parameters")) {
        put_parameters(client, &result);
    } else if (armswing_is_text(asked, "describe_parameters")) {
        describe_parameters(client, &result);
    } else if (armswing_is_text(asked, "set_parameters")) {
        set_parameters(client, args, line, sizeof line);
        put_parameters(client, &result);
    } else {
        const char *text = "";
        size_t length = 0;
        armswing_text(asked, &text, &length);
        snprintf(line, sizeof line,
                 "node '%.90s' has no service '%.*s'; its services are clock, describe_parameters, estop, "
                 "get_parameters, release, set_parameters, shutdown, status",
                 client->name, (int)(length > 80 ? 80 : length), text);
    }
    pack_map(&to, 4);
    pack_text(&to, "id"), put_bytes(&to, id.at, (size_t)(after.at - id.at));
    pack_text(&to, "ok"), pack_bool(&to, line[0] == '\0');
    pack_text(&to, "result");
    if (line[0]) pack_nil(&to);
    else put_bytes(&to, result.data, result.size);
    pack_text(&to, "error"), pack_text(&to, line);
    if (delimited) send_frames(link, "", 0, to.data, to.size);
    else send_frames(link, to.data, to.size, NULL, 0);
    free(to.data), free(result.data);
}

/* -- lockstep turns */

/* Take a turn; its reply goes to the server first, then its messages to the subscribers. */
static void take_turn(armswing_client *client, connection *link, armswing_value request) {
    const int64_t began = nanoseconds(CLOCK_MONOTONIC);
    const size_t length = armswing_length(request), size = (size_t)(request.end - request.at);
    const armswing_value seq = armswing_first(request), now = armswing_next(seq), messages = armswing_next(now);
    const armswing_value kind_of = length > 3 ? armswing_next(messages) : NOTHING;
    armswing_value at = armswing_first(messages);
    buffer *reply = &client->last_reply;
    double time = 0.0;
    size_t i, n;
    uint32_t k, published;
    if (size == client->last_request.size && size > 0 && memcmp(request.at, client->last_request.data, size) == 0) {
        send_frames(link, reply->data, reply->size, NULL, 0); /* asked again, after a link was lost */
        return;
    }
    if (!is_whole(request) || length < 3 || head_of(seq).kind != WHOLE || !armswing_number(now, &time) ||
        !(time >= 0.0 && time <= 9e9) || head_of(messages).kind != ARRAY) {
        refuse(client, "(turn)", "not a request");
        return;
    }
    if (head_of(seq).whole <= client->turn) { /* it was sent again over a new link, and then the old one delivered it */
        refuse(client, "(turn)", "a late copy of the request of an earlier turn");
        return;
    }
    client->turn = head_of(seq).whole;
    if (armswing_is_text(kind_of, "restore") || armswing_is_text(kind_of, "rewind")) {
        clear(&client->outgoing), client->n_outgoing = 0;
    } else {
        set_time(client, time);
        for (i = 0, n = armswing_length(messages); i < n && at.at != NULL; i++, at = armswing_next(at)) {
            const armswing_value name = armswing_first(at), payload = bytes_in(armswing_next(name));
            const char *text;
            size_t name_length;
            int index;
            if (armswing_length(at) != 2 || !armswing_text(name, &text, &name_length) || payload.at == NULL) {
                refuse(client, "(turn)", "a message that is not [topic, bytes]");
                continue;
            }
            index = subscription(client, text, name_length);
            if (index < 0) continue;
            if (!is_whole(payload) || head_of(payload).kind != MAP) refuse(client, client->topics[index].full, "no map");
            else deliver(client, index, payload);
        }
        if (client->node->rate_hz > 0.0 && time * client->node->rate_hz >= (double)client->ticks - 1e-6) {
            client->ticks = (int64_t)floor(time * client->node->rate_hz + 1e-6) + 1;
            tick(client, time);
        }
    }
    clear(&client->last_request), put_bytes(&client->last_request, request.at, size);
    clear(reply);
    pack_array(reply, 2);
    put_bytes(reply, seq.at, (size_t)(now.at - seq.at));
    pack_array(reply, client->n_outgoing);
    put_bytes(reply, client->outgoing.data, client->outgoing.size);
    send_frames(link, reply->data, reply->size, NULL, 0);
    note_duration(client, nanoseconds(CLOCK_MONOTONIC) - began);
    at.at = client->outgoing.data, at.end = client->outgoing.data + client->outgoing.size;
    published = client->n_outgoing;
    for (k = 0; k < published; k++, at = armswing_next(at)) {
        char full[TOPIC_SIZE] = "";
        const armswing_value name = armswing_first(at), payload = bytes_in(armswing_next(name));
        const char *text = "";
        size_t name_length = 0;
        armswing_text(name, &text, &name_length);
        copy_text(full, sizeof full, text, name_length);
        if (!armswing_is_text(kind_of, "quiet")) to_subscribers(client, full, payload.at, (size_t)(payload.end - payload.at));
    }
    clear(&client->outgoing), client->n_outgoing = 0;
}

/* -- received messages */

/* Print why the simulation refuses this node's commands, each reason once; reasons may differ in numbers. */
static void take_event(armswing_client *client, armswing_value event) {
    const char *slash = strrchr(client->name, '/'), *detail;
    uint64_t reason = 14695981039346656037U; /* FNV-1a of all but the digits */
    size_t i, length;
    if (!armswing_is_text(armswing_get(event, "kind"), "refused") ||
        !armswing_is_text(armswing_get(event, "node"), slash ? slash + 1 : client->name) ||
        !armswing_text(armswing_get(event, "detail"), &detail, &length))
        return;
    for (i = 0; i < length; i++)
        if (detail[i] < '0' || detail[i] > '9') reason = (reason ^ (unsigned char)detail[i]) * 1099511628211U;
    for (i = 0; i < (size_t)client->n_reasons; i++)
        if (client->reasons[i] == reason) return;
    if (client->n_reasons == REASONS) return;
    client->reasons[client->n_reasons++] = reason;
    fprintf(stderr, "WARNING %s: the simulation refuses the node's commands: %.*s\n", client->name,
            (int)(length > 400 ? 400 : length), detail);
}

/* Whether a message names the node that sent it. */
static int is_about(const source *from, armswing_value name) {
    const char *slash = strrchr(from->name, '/');
    return armswing_is_text(name, from->name) || (slash != NULL && armswing_is_text(name, slash + 1));
}

/* Whether a node may publish a message: it has registered the topic, or the topic is shared and the message is about
 * the node itself. */
static int may_publish(const source *from, const topic *of, int owned, armswing_value payload) {
    static const char *const own[] = {"set", "reload", "estop", "estop_released", "guard_clamp", "guard_rejected",
                                      "guard_stop", "guard_acknowledged"};
    const char *slash = strrchr(of->full, '/');
    size_t i;
    if (strcmp(of->full, "status") == 0) return is_about(from, armswing_get(payload, "node"));
    if (strcmp(of->full, "clock") == 0) return is_about(from, armswing_get(payload, "asker"));
    if (owned || slash == NULL || strcmp(slash, "/event") != 0) return owned;
    for (i = 0; i < sizeof own / sizeof *own; i++)
        if (armswing_is_text(armswing_get(payload, "kind"), own[i]))
            return is_about(from, armswing_get(payload, "node"));
    return 0;
}

static void take_stream(armswing_client *client, connection *link, const unsigned char *name, size_t length,
                        armswing_value payload) {
    source *from = &client->sources[link->source];
    double time = 0.0;
    int64_t seq = 0;
    int index;
    if (length == 1 && name[0] == '~') {
        link->confirmed = 1;
        return;
    }
    if (strcmp(from->name, "sim") == 0 && length == strlen(client->event_topic) && memcmp(name, client->event_topic, length) == 0 && is_whole(payload))
        take_event(client, payload);
    index = subscription(client, (const char *)name, length);
    if (index < 0) return; /* ZeroMQ matches prefixes */
    if ((size_t)(payload.end - payload.at) > LARGEST_MESSAGE || !is_whole(payload) || head_of(payload).kind != MAP) {
        refuse(client, client->topics[index].full, "not a message");
        return;
    }
    if (!may_publish(from, &client->topics[index], from->owns[index], payload)) {
        char line[ARMSWING_NAME + 64] = "";
        join_text(line, sizeof line, "from node '", from->name, "', to which the topic does not belong", (char *)NULL);
        refuse(client, client->topics[index].full, line);
        return;
    }
    armswing_integer(armswing_get(payload, "seq"), &seq);
    if (seq <= from->seq[index]) return;
    if (from->seq[index] > 0 && seq > from->seq[index] + 1) client->lost += (uint64_t)(seq - from->seq[index] - 1);
    from->seq[index] = seq;
    if (strcmp(client->topics[index].name, "state") == 0 &&
        armswing_number(armswing_get(payload, "timestamp"), &time) && isfinite(time))
        set_time(client, time);
    {
        const int64_t began = nanoseconds(CLOCK_MONOTONIC);
        deliver(client, index, payload);
        note_duration(client, nanoseconds(CLOCK_MONOTONIC) - began);
    }
}

static void take_subscription(armswing_client *client, connection *link, const unsigned char *data, size_t size) {
    if (size == 0 || data[0] > 1 || size > 1024 || memchr(data, '\0', size - (data[0] == 0)) == data + 1) {
        if (size != 1) refuse(client, "(subscription)", "not a subscription");
        else if (data[0] == 1) put_byte(&link->topics, 0); /* everything */
        if (size == 1 && data[0] == 1) publish_status(client);
        return;
    }
    if (data[0] == 1 && link->topics.size < 65536) {
        put_bytes(&link->topics, data + 1, size - 1), put_byte(&link->topics, 0);
        if (size == 2 && data[1] == '~') send_frames(link, "~", 1, "", 0);
        else if (size - 1 <= 6 && memcmp("status", data + 1, size - 1) == 0) publish_status(client);
    } else if (data[0] == 0) {
        size_t at = 0;
        while (at < link->topics.size) {
            const size_t length = strlen((const char *)link->topics.data + at);
            if (length == size - 1 && memcmp(link->topics.data + at, data + 1, length) == 0) {
                memmove(link->topics.data + at, link->topics.data + at + length + 1, link->topics.size - at - length - 1);
                link->topics.size -= length + 1;
                return;
            }
            at += length + 1;
        }
    }
}

typedef struct {
    unsigned char *data;
    size_t size;
} frame;

static void take_message(armswing_client *client, connection *link, const frame *frames, int count) {
    const int64_t now_ns = nanoseconds(CLOCK_REALTIME);
    const frame *last = &frames[count - 1];
    const armswing_value payload = {last->data, last->data + last->size};
    switch (link->role) {
    case DATA:
        if (count == 1) take_subscription(client, link, last->data, last->size);
        else refuse(client, "(subscription)", "the message has more than one ZeroMQ frame; expected one");
        break;
    case SERVICE:
        if ((count == 1 || (count == 2 && frames[0].size == 0)) && last->size <= LARGEST_MESSAGE && is_whole(payload))
            serve(client, link, payload, count == 2, now_ns);
        else refuse(client, "(service)", "not a valid call message");
        break;
    case STEP:
        if (!is_of_launch(client, link)) refuse(client, "(turn)", "only the host of the simulation may request this");
        else if (count == 1) take_turn(client, link, payload);
        else refuse(client, "(turn)", "the message has more than one ZeroMQ frame; expected one");
        break;
    case REGISTRY:
        if (count == 1) take_reply(client, payload);
        break;
    case GRANT:
        if (count == 1) take_grant(client, link, payload);
        break;
    case NEWS:
        if (count == 2 && is_whole(payload)) take_news(client, payload);
        break;
    default:
        if (count == 2) take_stream(client, link, frames[0].data, frames[0].size, payload);
        break;
    }
}

static void after_handshake(armswing_client *client, connection *link) {
    link->ready = 1;
    if (link->role == REGISTRY) register_node(client, "register");
    else if (link->role == GRANT) send_grant_call(client, link);
    else if (link->role == NEWS) send_frames(link, "\x01registry", 9, NULL, 0);
    else if (link->role == SOURCE) subscribe(client, link);
}

static void take_command(armswing_client *client, connection *link, const frame *command) {
    if (command->size >= 6 && memcmp(command->data, "\x05READY", 6) == 0 && !link->ready)
        after_handshake(client, link);
    else if (command->size >= 7 && memcmp(command->data, "\x04PING", 5) == 0) {
        buffer pong = {NULL, 0, 0, 0};
        put_bytes(&pong, "\x04PONG", 5), put_bytes(&pong, command->data + 7, command->size - 7);
        put_link_frame(link, 4, pong.data, pong.size);
        free(pong.data);
        flush_link(link);
    } else if (command->size < 5 || memcmp(command->data, "\x04PONG", 5) != 0) {
        link->broken = 1;
    }
}

/* Take a command of the handshake of an encrypted connection. */
static void take_handshake(armswing_client *client, connection *link, const unsigned char *command, size_t size) {
    unsigned char reply[CURVE_COMMAND] = {0};
    buffer metadata = {NULL, 0, 0, 0};
    size_t replied = 0;
    curve_result result;
    put_metadata(&metadata, link->role);
    result = curve_handshake(&link->curve, command, size, metadata.data, metadata.size, reply, &replied);
    free(metadata.data);
    if (replied > 0) put_frame(&link->out, 4, reply, replied), flush_link(link);
    if (result == CURVE_OPEN) after_handshake(client, link);
    else if (result != CURVE_WAITING) link->kind = UNKNOWN_KEY, link->broken = 1;
}

/* Move what has arrived from another computer, decrypted, to `plain`, as frames without encryption. */
static void decrypt(armswing_client *client, connection *link) {
    buffer *in = &link->in;
    if (!link->greeted) {
        const unsigned char *at = in->data + in->start;
        if (in->size - in->start < 64) {
            link->broken |= in->size > in->start && at[0] != 0xff;
            return;
        }
        link->greeted = 1;
        link->broken |= !(at[9] & 1) || at[10] < 3 || memcmp(at + 12, "CURVE", 6) != 0; /* libzmq leaves as-server 0 */
        link->kind = !link->broken ? KINDS : at[9] & 1 ? NO_KEY : NO_ZMTP;
        in->start += 64;
        if (!link->broken && !link->accepted) {
            unsigned char hello[CURVE_COMMAND] = {0};
            put_frame(&link->out, 4, hello, curve_hello(&link->curve, hello)), flush_link(link);
        }
    }
    while (!link->broken) {
        const unsigned char *at = in->data + in->start;
        const size_t left = in->size - in->start, wide = left > 0 && at[0] & 2 ? 8 : 1;
        unsigned char *plain;
        uint64_t size;
        long content;
        if (left < 1 + wide) return;
        size = big_endian(at + 1, wide);
        link->broken = size > LARGEST_FRAME || at[0] > 7 || (!link->ready && size > CURVE_COMMAND);
        if (link->broken || left < 1 + wide + size) return;
        if (!link->ready) {
            take_handshake(client, link, at + 1 + wide, (size_t)size);
        } else { /* room for a head of 9 bytes, of which the last will be the decrypted flags */
            plain = room(&link->plain, (size_t)size + 9);
            content = curve_decrypt(&link->curve, at + 1 + wide, (size_t)size, plain + 8);
            if (content < 0) {
                link->broken = 1;
                return;
            }
            {
                const unsigned flags = plain[8];
                put_byte(&link->plain, 2U | (flags & 1U) | (flags & 2U ? 4U : 0U));
                put_big_endian(&link->plain, (uint64_t)content, 8);
                link->plain.size += (size_t)content;
            }
        }
        in->start += 1 + wide + (size_t)size;
    }
}

/* Take one whole message or command from the connection; whether there was one. */
static int take_one(armswing_client *client, connection *link) {
    enum { MOST = 4 };
    buffer *in = link->encrypted ? &link->plain : &link->in;
    size_t at = in->start;
    frame frames[MOST];
    int count = 0;
    if (link->broken) return 0;
    if (!link->greeted) { /* of a connection without encryption */
        if (in->size - in->start < 64) {
            link->broken = in->size > in->start && in->data[in->start] != 0xff;
            return 0;
        }
        link->greeted = 1;
        link->broken = !(in->data[at + 9] & 1) || in->data[at + 10] < 3 || memcmp(in->data + at + 12, "NULL", 5) != 0;
        in->start += 64;
        return !link->broken;
    }
    for (;;) {
        const size_t left = in->size - at;
        const unsigned flags = left > 0 ? in->data[at] : 0;
        const size_t wide = flags & 2 ? 8 : 1;
        uint64_t size;
        if (left < 1 + wide) return 0;
        size = big_endian(in->data + at + 1, wide);
        if (size > LARGEST_FRAME || at - in->start > LARGEST_FRAME || flags > 7 || ((flags & 4) && count > 0)) {
            link->broken = 1;
            return 0;
        }
        if (left < 1 + wide + size) return 0;
        if (count == MOST) count--; /* a message of more frames is refused by its handler */
        frames[count].data = in->data + at + 1 + wide, frames[count].size = (size_t)size, count++;
        at += 1 + wide + (size_t)size;
        if (flags & 4) take_command(client, link, &frames[0]);
        else if (flags & 1) continue;
        else if (link->ready) take_message(client, link, frames, count);
        else link->broken = 1;
        in->start = at;
        return !link->broken;
    }
}

static void read_link(armswing_client *client, connection *link) {
    enum { CHUNK = 65536 };
    for (;;) {
        unsigned char *to = room(&link->in, CHUNK);
        const ssize_t count = recv(link->fd, to, CHUNK, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (count <= 0) {
            link->broken = 1;
            return;
        }
        link->in.size += (size_t)count, link->heard_at = milliseconds();
        if (link->encrypted) decrypt(client, link);
        while (take_one(client, link)) continue;
        if (link->in.start == link->in.size) clear(&link->in);
        if (link->plain.start == link->plain.size) clear(&link->plain);
        if (count < CHUNK || link->broken) return;
    }
}

/* -- sockets of the node */

static int bind_socket(armswing_client *client, role of, const char *use) {
    struct sockaddr_un address;
    char file[ARMSWING_NAME + 32], leaf[ARMSWING_NAME], lock[PATH_SIZE + 8], *slash;
    int fd;
    join_text(leaf, sizeof leaf, client->name, (char *)NULL);
    for (slash = leaf; *slash; slash++)
        if (*slash == '/') *slash = '.';
    snprintf(file, sizeof file, "%s-%ld.%s", leaf, (long)getpid(), use);
    if (!join_text(client->path[of], 101, client->folder, "/", file, (char *)NULL) ||
        !address_of(&address, client->path[of])) {
        fprintf(stderr, "error: the path %s/%s of a socket is longer than 100 bytes; set a shorter XDG_RUNTIME_DIR\n",
                client->folder, file);
        return 0;
    }
    join_text(lock, sizeof lock, client->path[of], ".lock", (char *)NULL); /* held while the path is in use */
    client->locked[of] = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    fd = client->locked[of] >= 0 && flock(client->locked[of], LOCK_EX | LOCK_NB) == 0 ? socket(AF_UNIX, SOCK_STREAM, 0)
                                                                                      : -1;
    unlink(client->path[of]);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 64) != 0) {
        fprintf(stderr, "error: cannot bind %s: %s\n", client->path[of], strerror(errno));
        if (fd >= 0) close(fd);
        return 0;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    client->listener[of] = fd;
    return 1;
}

/* Bind a socket for other computers, to any free port of this computer's address. */
static int bind_remote(armswing_client *client, role of) {
    struct sockaddr_storage address;
    socklen_t length = internet_address(&address, client->address, 0);
    const int on = 1, unsent = 32768; /* bytes: more in the kernel would only arrive later */
    char digits[2 * CURVE_KEY + 1];
    const char *six = strchr(client->address, ':');
    unsigned port;
    int fd = length > 0 ? socket(address.ss_family, SOCK_STREAM, 0) : -1;
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* connections inherit both */
#ifdef TCP_NOTSENT_LOWAT
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
#else
        (void)unsent;
#endif
    }
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        fprintf(stderr, "error: cannot bind 'tcp://%s:*': %s\n", client->address,
                length > 0 ? strerror(errno) : "it is not an IP address");
        if (fd >= 0) close(fd);
        return 0;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    port = ntohs(six ? ((struct sockaddr_in6 *)&address)->sin6_port : ((struct sockaddr_in *)&address)->sin_port);
    curve_write_key(digits, curve_own_key());
    snprintf(client->remote_path[of], ENDPOINT_SIZE, "tcp://%s%s%s:%u#%s", six ? "[" : "", client->address,
             six ? "]" : "", port, digits);
    client->remote_listener[of] = fd;
    return 1;
}

static void unbind(armswing_client *client) {
    int i;
    for (i = DATA; i <= STEP; i++) {
        char lock[PATH_SIZE + 8];
        if (client->remote_listener[i] >= 0) close(client->remote_listener[i]);
        if (client->listener[i] >= 0) close(client->listener[i]), unlink(client->path[i]);
        if (client->locked[i] < 0) continue;
        join_text(lock, sizeof lock, client->path[i], ".lock", (char *)NULL);
        unlink(lock), close(client->locked[i]);
    }
}

static void connect_registry(armswing_client *client) {
    static const char *const leaf[] = {"/registry", "/registry-news"};
    const role roles[] = {REGISTRY, NEWS};
    char path[PATH_SIZE], line[640];
    int i;
    for (i = 0; i < 2; i++) {
        connection *link;
        if (link_of(client, roles[i], 0) != NULL || milliseconds() < client->retry_at[i]) continue;
        line[0] = '\0';
        if (client->registry[i][0]) {
            link = connect_remote(client, client->registry[i], roles[i], 0, line, sizeof line);
        } else {
            join_text(path, sizeof path, client->folder, leaf[i], (char *)NULL);
            link = connect_to(client, path, roles[i], 0);
        }
        if (link == NULL) client->retry_at[i] = milliseconds() + 10 * RECONNECT_MS;
        if (line[0] && !client->told_of_registry) client->told_of_registry = fprintf(stderr, "WARNING %s\n", line) > 0;
        if (link != NULL) client->told_of_registry = 0;
    }
}

/* -- hosts: a launch writes the name and address of each computer, and where its registry is, to a file there */

/* Copy the text of a key of a flat JSON object without spaces; 1 where it is absent ("") or fits. */
static int json_field(const char *json, const char *key, char *to, size_t size) {
    char quoted[ARMSWING_NAME] = "";
    const char *at, *end;
    join_text(quoted, sizeof quoted, "\"", key, "\":", (char *)NULL);
    to[0] = '\0';
    if ((at = strstr(json, quoted)) == NULL) return 1;
    at += strlen(quoted);
    if (*at != '"' || (end = strchr(at + 1, '"')) == NULL) return 0;
    return copy_text(to, size, at + 1, (size_t)(end - at - 1));
}

/* Read this computer's part in a launch on several computers, and this user's key. Returns 1, or 0 after a line. */
static int read_host(armswing_client *client) {
    char file[PATH_SIZE + 16], json[2048], line[512];
    FILE *stream;
    join_text(file, sizeof file, client->folder, "/host.json", (char *)NULL);
    if ((stream = fopen(file, "r")) == NULL) return 1;
    json[fread(json, 1, sizeof json - 1, stream)] = '\0';
    fclose(stream);
    if (!json_field(json, "host", line, ARMSWING_NAME) ||
        !json_field(json, "address", client->address, ADDRESS_SIZE) ||
        !json_field(json, "calls", client->registry[0], ENDPOINT_SIZE) ||
        !json_field(json, "news", client->registry[1], ENDPOINT_SIZE)) {
        fprintf(stderr, "error: %s cannot be used: it is not the configuration of a host\n", file);
        return 0;
    }
    if (line[0]) join_text(client->host, ARMSWING_NAME, line, (char *)NULL);
    if (!CURVE_BUILT && client->registry[0][0]) {
        fprintf(stderr,
                "error: host '%s' reaches its launch with keys, and this program was built without them; build it with "
                "'make CURVE=1'\n",
                client->host);
        return 0;
    }
    if (CURVE_BUILT && client->address[0] && !curve_read_own_key(line, sizeof line)) {
        fprintf(stderr, "error: address 'tcp://%s' is refused without keys: %s\n", client->address, line);
        return 0;
    }
    return 1;
}

/* Send heartbeats to other computers, end silent connections, and those of keys that were revoked. */
static void check_remote_links(armswing_client *client) {
    const int64_t now = milliseconds();
    const int check = now >= client->check_at;
    char reason[512] = "";
    size_t i;
    if (check) client->check_at = now + CHECK_MS;
    for (i = client->n_links; i-- > 0;) {
        connection *link = client->links[i];
        char line[512];
        if (!link->encrypted) continue;
        if (link->ready && now >= link->beat_at) {
            link->beat_at = now + HEARTBEAT_MS;
            put_link_frame(link, 4, "\x04PING\0\x0a", 7); /* the peer waits 10 tenths of a second for more */
            flush_link(link);
        }
        link->broken |= link->ready ? now - link->heard_at > SILENCE_MS : now - link->opened_at > HANDSHAKE_MS;
        if (check && link->ready && !link->broken && !curve_is_allowed(link->curve.peer, line, sizeof line)) {
            memcpy(reason, line, sizeof reason), link->broken = 1;
        }
        if (link->broken) drop_link(client, i);
    }
    if (reason[0]) fprintf(stderr, "WARNING %s: closed connections: %s\n", client->name, reason);
}

static void accept_links(armswing_client *client, role of, int listener, int encrypted) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    size_t i;
    int fd;
    while ((fd = accept(listener, (struct sockaddr *)&address, &length)) >= 0) {
        connection *link;
        size_t newcomers = 0, remote = 0;
        for (i = 0; i < client->n_links && encrypted; i++) {
            newcomers += client->links[i]->encrypted && client->links[i]->accepted && !client->links[i]->ready;
            remote += client->links[i]->encrypted && client->links[i]->accepted;
        }
        link = add_link(client, fd, of, 0, encrypted, NULL);
        if (encrypted) {
            const void *ip = address.ss_family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)&address)->sin6_addr
                                                           : (void *)&((struct sockaddr_in *)&address)->sin_addr;
            if (inet_ntop(address.ss_family, ip, link->peer, ADDRESS_SIZE) == NULL) link->peer[0] = '\0';
            link->broken = newcomers >= NEWCOMERS || remote >= REMOTE_LINKS;
        }
        length = sizeof address;
    }
}

/* -- the loop */

static void wait_and_take(armswing_client *client, int64_t wait_ms) {
    size_t i, n = client->n_links;
    nfds_t polled = 0;
    for (i = 0; i < n; i++, polled++) {
        client->polled[polled].fd = client->links[i]->fd;
        client->polled[polled].events = POLLIN;
        client->polled[polled].revents = 0;
        if (client->links[i]->out.start < client->links[i]->out.size) client->polled[polled].events |= POLLOUT;
    }
    for (i = 0; i < 2 * (STEP + 1); i++, polled++) { /* negative: poll ignores it */
        client->polled[polled].fd = i <= STEP ? client->listener[i] : client->remote_listener[i - STEP - 1];
        client->polled[polled].events = POLLIN;
        client->polled[polled].revents = 0;
    }
    if (poll(client->polled, polled, wait_ms > 0 ? (int)wait_ms : 0) <= 0) return;
    for (i = 0; i < n; i++) { /* handlers add connections only behind these */
        const short events = client->polled[i].revents;
        if (events & POLLOUT) flush_link(client->links[i]);
        if (events & (POLLIN | POLLHUP | POLLERR)) read_link(client, client->links[i]);
    }
    for (i = 0; i < 2 * (STEP + 1); i++) {
        const int remote = i > STEP;
        if (!(client->polled[n + i].revents & POLLIN)) continue;
        accept_links(client, (role)(i % (STEP + 1)), client->polled[n + i].fd, remote);
    }
    for (i = client->n_links; i-- > 0;)
        if (client->links[i]->broken) drop_link(client, i);
}

static void run(armswing_client *client) {
    const int64_t period_ns =
        client->node->rate_hz > 0.0 && !client->participant ? (int64_t)(1e9 / client->node->rate_hz) : 0;
    const int64_t began = milliseconds();
    int64_t register_at = began + REGISTER_MS, status_at = 0;
    int told = 0, i;
    client->tick_at = nanoseconds(CLOCK_MONOTONIC) + period_ns;
    while (!client->stopping && !stop_asked) {
        const int64_t now = milliseconds();
        int64_t until = register_at < status_at ? register_at : status_at;
        if (now >= register_at) register_at = now + REGISTER_MS, register_node(client, "register");
        if (now >= status_at) status_at = now + STATUS_MS, publish_status(client);
        connect_registry(client);
        for (i = 0; i < client->n_sources; i++)
            if (client->sources[i].listed) follow(client, i);
        if (client->address[0] && CURVE_BUILT) {
            check_remote_links(client);
            if (until > now + HEARTBEAT_MS / 2) until = now + HEARTBEAT_MS / 2;
        }
        if (!told && !client->registered && now >= began + (client->registry[0][0] ? 3 : 1) * REGISTER_MS) {
            const int there = (int)strcspn(client->registry[0], "#");
            told = there > 0 ? fprintf(stderr,
                                       "waiting: no launch answers at %.*s; is the launch running there, and this "
                                       "computer's key allowed? Ctrl-C ends\n", there, client->registry[0]) > 0
                             : fprintf(stderr, "waiting: no launch answers in %s; Ctrl-C ends\n", client->folder) > 0;
        }
        if (strcmp(client->state, "starting") == 0) {
            if (is_ready(client)) set_state(client, "ready");
            if (until > now + RECONNECT_MS) until = now + RECONNECT_MS;
        }
        if (period_ns > 0) {
            const int64_t ns = nanoseconds(CLOCK_MONOTONIC);
            if (ns >= client->tick_at) {
                client->overruns += (uint64_t)((ns - client->tick_at) / period_ns);
                client->tick_at += ((ns - client->tick_at) / period_ns + 1) * period_ns;
                tick(client, 1e-9 * (double)ns);
            }
            if (until > client->tick_at / 1000000) until = client->tick_at / 1000000;
        }
        wait_and_take(client, until - now);
    }
}

static void finish(armswing_client *client) {
    const int64_t until = milliseconds() + LAST_WORDS_MS;
    size_t i;
    int waiting = 1;
    if (client->node->on_stop != NULL) client->node->on_stop(client);
    publish_plotted(client);
    client->state = client->exit_code == 1 ? "failed" : "stopped";
    publish_status(client);
    for (i = 0; i < client->n_links; i++)
        if (client->links[i]->role == DATA && client->links[i]->ready) send_frames(client->links[i], "~", 1, "end", 3);
    if (client->registered) register_node(client, "unregister"); /* else the name is of another process, or unknown */
    while (waiting && milliseconds() < until) { /* for what peers have not read yet */
        waiting = 0;
        for (i = 0; i < client->n_links; i++) {
            struct pollfd writable = {client->links[i]->fd, POLLOUT, 0};
            if (client->links[i]->out.start == client->links[i]->out.size || client->links[i]->broken) continue;
            poll(&writable, 1, 10);
            flush_link(client->links[i]);
            waiting = 1;
        }
    }
    while (client->n_links > 0) drop_link(client, client->n_links - 1);
    unbind(client);
    if (client->times != NULL) fclose(client->times);
    fprintf(stderr, "%s: ended after %llu messages\n", client->name, (unsigned long long)client->sent);
    free(client->links), free(client->polled), free(client->message.data), free(client->outgoing.data);
    free(client->last_request.data), free(client->last_reply.data);
}

/* -- arguments */

static void json_text(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        if ((unsigned char)*text >= 32) putchar(*text);
    }
    putchar('"');
}

static void json_list(const char *key, const char *const *names) {
    const char *const *each;
    printf("\"%s\": [", key);
    for (each = names; each != NULL && *each != NULL; each++) {
        if (each != names) printf(", ");
        json_text(*each);
    }
    printf("], ");
}

static void json_limit(const char *key, double limit) {
    char text[32] = "null";
    if (isfinite(limit)) json_number(text, sizeof text, limit);
    printf(", \"%s\": %s", key, text);
}

/* Print what a launch asks a program for: topics and parameters, as JSON. */
static void describe(const armswing_node *node) {
    const armswing_parameter *each;
    char text[32];
    printf("{\"protocol\": %d, \"name\": ", PROTOCOL);
    json_text(node->name), printf(", ");
    json_list("subscribes", node->subscribes), json_list("publishes", node->publishes);
    printf("\"curve\": %s, \"lossless\": %s, \"rate_hz\": ", CURVE_BUILT ? "true" : "false",
           node->lossless ? "true" : "false");
    json_number(text, sizeof text, node->rate_hz);
    printf("%s, \"parameters\": [", node->rate_hz > 0.0 ? text : "null");
    for (each = node->parameters; each != NULL && each->name != NULL; each++) {
        json_number(text, sizeof text, each->value);
        printf("%s{\"name\": ", each == node->parameters ? "" : ", "), json_text(each->name);
        printf(", \"default\": %s, \"unit\": ", text), json_text(each->unit != NULL ? each->unit : "");
        json_limit("low", each->low), json_limit("high", each->high), printf("}");
    }
    printf("]}\n");
}

static int usage(const char *program, const char *wrong) {
    if (wrong != NULL) fprintf(stderr, "error: %s\n", wrong);
    fprintf(wrong != NULL ? stderr : stdout,
            "usage: %s [--domain N] [--name NAME] [--param NAME=NUMBER ...]\n"
            "Joins the live launch of the domain as a node. --describe prints its topics and parameters as JSON.\n"
            "A launch adds: --launched --folder F --robot R --host H --mode M --participant 0|1 --topic NAME=FULL\n",
            program);
    return wrong != NULL ? 2 : 0;
}

/* The name before "=" of an argument and the text after it; 0 where there is no "=". */
static int split(const char *argument, size_t *length, const char **content) {
    const char *sign = strchr(argument, '=');
    if (sign == NULL) return 0;
    *length = (size_t)(sign - argument), *content = sign + 1;
    return 1;
}

static int set_parameter(armswing_client *client, const char *argument, char *line, size_t size) {
    size_t length;
    const char *content;
    char *end;
    armswing_parameter *each;
    double value;
    if (!split(argument, &length, &content) || *content == '\0') {
        snprintf(line, size, "--param %.100s: write NAME=NUMBER", argument);
        return 0;
    }
    each = parameter_named(client, argument, length);
    value = strtod(content, &end);
    if (each == NULL || *end != '\0') {
        snprintf(line, size, each == NULL ? "--param %.100s: no such parameter" : "--param %.100s: not a number", argument);
        return 0;
    }
    if (unfit(client, each, value, line, size)) return 0;
    each->value = value;
    return 1;
}

static int set_topic(armswing_client *client, const char *argument) {
    size_t length;
    const char *full;
    int i, found = 0;
    if (!split(argument, &length, &full)) return 0;
    for (i = 0; i < client->n_topics; i++)
        if (strlen(client->topics[i].name) == length && memcmp(client->topics[i].name, argument, length) == 0)
            found = join_text(client->topics[i].full, TOPIC_SIZE, full, (char *)NULL);
    return found;
}

static int add_topics(armswing_client *client, const char *const *names, int published) {
    for (; names != NULL && *names != NULL; names++) {
        if (client->n_topics == TOPICS) return 0;
        client->topics[client->n_topics].name = *names;
        client->topics[client->n_topics++].published = published;
    }
    return 1;
}

/* Read the arguments; -1 to go on, else the exit code. */
static int read_arguments(armswing_client *client, int count, char **arguments, const char **domain) {
    char line[512];
    int i;
    for (i = 1; i < count; i++) {
        const char *key = arguments[i], *content;
        if (strcmp(key, "--describe") == 0) return describe(client->node), 0;
        if (strcmp(key, "--help") == 0 || strcmp(key, "-h") == 0) return usage(arguments[0], NULL);
        if (strcmp(key, "--launched") == 0) {
            client->launched = 1;
            continue;
        }
        if (i + 1 == count) {
            snprintf(line, sizeof line, "%.100s: no such option, or its value is missing", key);
            return usage(arguments[0], line);
        }
        content = arguments[++i];
        line[0] = '\0';
        if (strcmp(key, "--domain") == 0) *domain = content;
        else if (strcmp(key, "--name") == 0 && join_text(client->name, ARMSWING_NAME, content, (char *)NULL)) continue;
        else if (strcmp(key, "--robot") == 0 && join_text(client->robot, ARMSWING_NAME, content, (char *)NULL)) continue;
        else if (strcmp(key, "--host") == 0 && join_text(client->host, ARMSWING_NAME, content, (char *)NULL)) continue;
        else if (strcmp(key, "--folder") == 0 && join_text(client->folder, PATH_SIZE, content, (char *)NULL)) continue;
        else if (strcmp(key, "--mode") == 0) client->lockstep = strcmp(content, "lockstep") == 0;
        else if (strcmp(key, "--participant") == 0) client->participant = strcmp(content, "1") == 0;
        else if (strcmp(key, "--topic") == 0 && set_topic(client, content)) continue;
        else if (strcmp(key, "--param") == 0) {
            if (!set_parameter(client, content, line, sizeof line)) return usage(arguments[0], line);
        } else {
            snprintf(line, sizeof line, "%.100s %.200s: no such option, or its value does not fit", key, content);
            return usage(arguments[0], line);
        }
    }
    return -1;
}

static int find_folder(armswing_client *client, const char *domain) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat found;
    char user[32];
    if (domain == NULL && (domain = getenv("ARMSWING_DOMAIN")) == NULL) domain = "0";
    snprintf(user, sizeof user, "%ld", (long)getuid());
    if (client->folder[0] == '\0' &&
        !(runtime != NULL && runtime[0]
              ? join_text(client->folder, PATH_SIZE, runtime, "/armswing/", domain, (char *)NULL)
              : join_text(client->folder, PATH_SIZE, "/tmp/armswing-", user, "/", domain, (char *)NULL))) {
        fprintf(stderr, "error: the path of the domain's folder is too long; set a shorter XDG_RUNTIME_DIR\n");
        return 0;
    }
    if (stat(client->folder, &found) == 0 && (found.st_uid != getuid() || found.st_mode & 022)) {
        fprintf(stderr, "error: the folder %s can be changed by other users; set XDG_RUNTIME_DIR to a folder of your own\n",
                client->folder);
        return 0;
    }
    if (access(client->folder, W_OK) == 0) return 1;
    fprintf(stderr, "error: no launch is live in domain %s: there is no folder %s\n", domain, client->folder);
    return 0;
}

int armswing_main(int count, char **arguments, armswing_node *node) {
    static armswing_client client;
    const char *domain = NULL, *times = getenv("ARMSWING_TURN_TIMES");
    struct sigaction stop;
    int i, code;
    memset(&client, 0, sizeof client);
    memset(&stop, 0, sizeof stop);
    client.node = node, client.state = "starting", client.began = -1;
    for (i = DATA; i <= STEP; i++) client.listener[i] = client.remote_listener[i] = client.locked[i] = -1;
    join_text(client.name, ARMSWING_NAME, node->name, (char *)NULL);
    join_text(client.host, ARMSWING_NAME, "localhost", (char *)NULL);
    if (!add_topics(&client, node->subscribes, 0) || !add_topics(&client, node->publishes, 1) ||
        n_parameters(&client) > PARAMETERS) {
        fprintf(stderr, "error: a node has at most %d topics and %d parameters\n", (int)TOPICS, (int)PARAMETERS);
        return 2;
    }
    if ((code = read_arguments(&client, count, arguments, &domain)) >= 0) return code;
    if (!find_folder(&client, domain) || !read_host(&client)) return 2;
    stop.sa_handler = ask_to_stop; /* without SA_RESTART: poll returns */
    sigaction(SIGINT, &stop, NULL), sigaction(SIGTERM, &stop, NULL);
    if (times != NULL && times[0]) {
        char file[512], *slash;
        snprintf(file, sizeof file, "%s/%s.ns", times, client.name);
        for (slash = file + strlen(times) + 1; strlen(times) < sizeof file && *slash; slash++)
            if (*slash == '/') *slash = '.';
        client.times = fopen(file, "w");
    }
    if (client.launched || client.robot[0]) resolve_topics(&client);
    if (!bind_socket(&client, DATA, "data") || !bind_socket(&client, SERVICE, "service") ||
        (client.participant && !bind_socket(&client, STEP, "step")) ||
        (CURVE_BUILT && client.address[0] &&
         (!bind_remote(&client, DATA) || !bind_remote(&client, SERVICE) ||
          (client.participant && !bind_remote(&client, STEP))))) {
        unbind(&client);
        return 2;
    }
    client.polled = grown(NULL, 2 * (STEP + 1) * sizeof *client.polled);
    if (node->on_start != NULL) node->on_start(&client);
    publish_plotted(&client);
    run(&client);
    code = client.exit_code ? client.exit_code : client.registered ? 0 : 1;
    finish(&client);
    return code;
}
