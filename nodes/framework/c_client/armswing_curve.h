/* CURVE, the encryption of ZeroMQ (ZMTP 3.0, RFC 26), and this user's keys, for armswing_client.c.
 *
 * Compiled with -DARMSWING_CURVE, together with armswing_curve.c and libsodium. Without it the functions below are
 * absent, and the client connects to the nodes of its own computer only.
 */
#ifndef ARMSWING_CURVE_H
#define ARMSWING_CURVE_H

#include <stddef.h>
#include <stdint.h>

enum {
    CURVE_KEY = 32,       /* bytes of a key */
    CURVE_COOKIE = 96,    /* bytes of the cookie of a handshake */
    CURVE_COMMAND = 1024, /* largest size of a command of the handshake, bytes */
    CURVE_MESSAGE = 33    /* bytes by which an encrypted frame is longer than its content */
};

/* What a command of the handshake led to. */
typedef enum {
    CURVE_WAITING,    /* the handshake goes on */
    CURVE_OPEN,       /* the handshake is over: messages may be encrypted and decrypted */
    CURVE_UNREADABLE, /* the peer encrypted for another key, or its command is malformed */
    CURVE_NOT_ALLOWED /* the key of the peer is not on the allow-list */
} curve_result;

/* One end of an encrypted connection. Its key pair is valid for this connection only. */
typedef struct {
    int is_server;                  /* whether this end accepted the connection */
    int stage;                      /* number of commands of the handshake that were received */
    unsigned char peer[CURVE_KEY];  /* public key of the peer's user */
    unsigned char public[CURVE_KEY], secret[CURVE_KEY], theirs[CURVE_KEY], shared[CURVE_KEY];
    unsigned char cookie[CURVE_COOKIE];
    uint64_t sent, received; /* counters of the nonces */
} curve_session;

#ifdef ARMSWING_CURVE

enum { CURVE_BUILT = 1 };

/* Read this user's key pair. Returns 1, or 0 with the reason in `line`: no key, or a file that others can read. */
int curve_read_own_key(char *line, size_t size);
/* Whether a public key is on the allow-list; 0 with the reason in `line` where it is not, or the list is unreadable. */
int curve_is_allowed(const unsigned char *key, char *line, size_t size);
/* This user's public key. */
const unsigned char *curve_own_key(void);
/* Read a key of 64 hexadecimal digits. Returns 1, or 0 for other text. */
int curve_parse_key(unsigned char *key, const char *text, size_t length);
/* Write a key as 64 hexadecimal digits and a final zero byte. */
void curve_write_key(char *text, const unsigned char *key);

/* Begin a connection. server_key: public key of the peer, NULL on the end that accepted the connection. */
void curve_begin(curve_session *session, const unsigned char *server_key);
/* Write the first command of a client. Returns its size. */
size_t curve_hello(curve_session *session, unsigned char *to);
/* Take a command of the peer, and write the reply, of `*replied` bytes, to `to`. metadata: properties of our socket. */
curve_result curve_handshake(curve_session *session, const unsigned char *command, size_t size, const void *metadata,
                             size_t metadata_size, unsigned char *to, size_t *replied);
/* Encrypt a frame. flags: 1 more frames follow, 2 a command. `to` has space for size + CURVE_MESSAGE bytes. */
void curve_encrypt(curve_session *session, unsigned flags, const void *data, size_t size, unsigned char *to);
/* Decrypt a frame to `to`, its flags and then its content. Returns the size of the content, -1 for a forged frame. */
long curve_decrypt(curve_session *session, const unsigned char *frame, size_t size, unsigned char *to);

#else

enum { CURVE_BUILT = 0 };
#define curve_read_own_key(line, size) ((line)[0] = '\0', (void)(size), 0)
#define curve_is_allowed(key, line, size) ((line)[0] = '\0', (void)(key), (void)(size), 0)
static const unsigned char curve_no_key[CURVE_KEY] = {0};
#define curve_own_key() curve_no_key
#define curve_parse_key(key, text, length) ((void)(key), (void)(text), (void)(length), 0)
#define curve_write_key(text, key) ((text)[0] = '\0', (void)(key))
#define curve_begin(session, server_key) ((void)(session), (void)(server_key))
#define curve_hello(session, to) ((void)(session), (void)(to), (size_t)0)
#define curve_handshake(session, command, size, metadata, metadata_size, to, replied) \
    ((void)(session), (void)(command), (void)(size), (void)(metadata), (void)(metadata_size), (void)(to), \
     (void)(replied), CURVE_UNREADABLE)
#define curve_encrypt(session, flags, data, size, to) \
    ((void)(session), (void)(flags), (void)(data), (void)(size), (void)(to))
#define curve_decrypt(session, frame, size, to) ((void)(session), (void)(frame), (void)(size), (void)(to), -1L)

#endif
#endif
