/* CURVE and keys, see armswing_curve.h. Names of the keys as in RFC 26: C, S of the users, C', S' of the connection. */
#ifdef ARMSWING_CURVE
#define _DEFAULT_SOURCE
#include "armswing_curve.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_NAME = 512, LINE = 256, NONCE = 24, MAC = 16, LARGEST_NAME = 64 };

static unsigned char own_public[CURVE_KEY], own_secret[CURVE_KEY];

/* -- keys */

int curve_parse_key(unsigned char *key, const char *text, size_t length) {
    size_t i;
    if (length != 2 * CURVE_KEY) return 0;
    for (i = 0; i < length; i++) {
        const char *digit = strchr("0123456789abcdef", text[i]);
        if (text[i] == '\0' || digit == NULL) return 0;
        key[i / 2] = (unsigned char)((i % 2 ? key[i / 2] << 4 : 0) | (digit - "0123456789abcdef"));
    }
    return 1;
}

void curve_write_key(char *text, const unsigned char *key) { sodium_bin2hex(text, 2 * CURVE_KEY + 1, key, CURVE_KEY); }

const unsigned char *curve_own_key(void) { return own_public; }

static int is_name(const char *text) {
    size_t i;
    if (!isalpha((unsigned char)text[0]) || strlen(text) > LARGEST_NAME) return 0;
    for (i = 0; text[i]; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("_.-", text[i]) == NULL) return 0;
    return 1;
}

/* Name of a key file: of $XDG_CONFIG_HOME/armswing/keys, or ~/.config/armswing/keys. */
static void key_file(char *to, const char *leaf) {
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    const struct passwd *user = home == NULL || !home[0] ? getpwuid(getuid()) : NULL;
    if (user != NULL) home = user->pw_dir;
    if (config != NULL && config[0]) snprintf(to, FILE_NAME, "%s/armswing/keys/%s", config, leaf);
    else snprintf(to, FILE_NAME, "%s/.config/armswing/keys/%s", home != NULL ? home : "", leaf);
}

/* Whether a group has the name of a user: many systems make such a group for each user alone. */
static int is_private_group(gid_t group, uid_t user) {
    const struct passwd *owner = getpwuid(user);
    const struct group *found = getgrgid(group);
    return owner != NULL && found != NULL && strcmp(owner->pw_name, found->gr_name) == 0;
}

/* Whether no other user could have written an open key file and the three folders above it; 0 with the reason in
 * `line`. closed: bits that the mode of the file must not have. */
static int is_own(FILE *stream, const char *file, mode_t closed, char *line, size_t size) {
    char path[FILE_NAME];
    struct stat found;
    int level;
    snprintf(path, sizeof path, "%s", file);
    for (level = 0; level < 4; level++) {
        if ((level == 0 ? fstat(fileno(stream), &found) : stat(path, &found)) != 0)
            return snprintf(line, size, "%.350s cannot be read: %s", path, strerror(errno)), 0;
        if (found.st_uid != getuid() && (found.st_uid != 0 || closed == 077))
            return snprintf(line, size, "%.200s belongs to another user (uid %ld, yours is %ld); set XDG_CONFIG_HOME to"
                            " a folder of your own", path, (long)found.st_uid, (long)getuid()), 0;
        if (closed == 022 && found.st_mode & 020 && is_private_group(found.st_gid, found.st_uid)) closed = 02;
        if (found.st_mode & closed)
            return snprintf(line, size, "%.180s is open to other users (mode %04o); close it with 'chmod %s %.180s'",
                            path, (unsigned)(found.st_mode & 07777), closed == 077 ? "go-rwx" : "go-w", path), 0;
        closed = 022;
        if (level < 3) *strrchr(path, '/') = '\0';
    }
    return 1;
}

int curve_read_own_key(char *line, size_t size) {
    char file[FILE_NAME], text[LINE] = "", name[LINE] = "", halves[2][LINE] = {"", ""}, rest[2] = "";
    unsigned char derived[CURVE_KEY];
    FILE *stream;
    int words;
    key_file(file, "own");
    if (sodium_init() < 0) return snprintf(line, size, "libsodium cannot be used: no random numbers"), 0;
    if ((stream = fopen(file, "r")) == NULL) {
        if (errno == ENOENT) snprintf(line, size, "no key at %.350s: 'armswing keys new' makes one", file);
        else snprintf(line, size, "%.350s cannot be read: %s", file, strerror(errno));
        return 0;
    }
    if (!is_own(stream, file, 077, line, size)) return fclose(stream), 0;
    text[fread(text, 1, sizeof text - 1, stream)] = '\0';
    fclose(stream);
    words = sscanf(text, "%255s %255s %255s %1s", name, halves[0], halves[1], rest);
    if (words != 3 || !is_name(name) || !curve_parse_key(own_public, halves[0], strlen(halves[0])) ||
               !curve_parse_key(own_secret, halves[1], strlen(halves[1])) ||
               crypto_scalarmult_base(derived, own_secret) != 0 || memcmp(derived, own_public, CURVE_KEY) != 0) {
        snprintf(line, size, "%.350s holds no key; make another with 'armswing keys new NAME --force'", file);
    } else {
        words = 0;
    }
    sodium_memzero(text, sizeof text), sodium_memzero(halves, sizeof halves);
    return words == 0;
}

int curve_is_allowed(const unsigned char *key, char *line, size_t size) {
    char file[FILE_NAME], text[LINE + 2], digits[2 * CURVE_KEY + 1];
    FILE *stream;
    int number = 0, found = 0;
    key_file(file, "allowed");
    curve_write_key(digits, key);
    if ((stream = fopen(file, "r")) == NULL && errno != ENOENT)
        return snprintf(line, size, "%.350s cannot be read: %s", file, strerror(errno)), 0;
    if (stream != NULL && !is_own(stream, file, 022, line, size)) return fclose(stream), 0;
    while (stream != NULL && fgets(text, sizeof text, stream) != NULL) {
        char name[LINE + 2] = "", half[LINE + 2] = "", rest[2] = "";
        unsigned char known[CURVE_KEY];
        int words;
        number++;
        text[strcspn(text, "#")] = '\0'; /* a comment */
        words = sscanf(text, "%256s %256s %1s", name, half, rest);
        if (words <= 0) continue;
        if (words != 2 || !is_name(name) || !curve_parse_key(known, half, strlen(half))) {
            fclose(stream);
            snprintf(line, size, "%.350s, line %d is invalid; write a name and a key of 64 hexadecimal digits", file,
                     number);
            return 0;
        }
        found |= memcmp(known, key, CURVE_KEY) == 0;
    }
    if (stream != NULL) fclose(stream);
    if (!found) snprintf(line, size, "key %s is not allowed; allow it with 'armswing keys allow NAME %s'", digits, digits);
    return found;
}

/* -- handshake */

static void put_count(unsigned char *to, uint64_t count) {
    int i;
    for (i = 7; i >= 0; i--, count >>= 8) to[i] = (unsigned char)(count & 0xff);
}

static uint64_t count_at(const unsigned char *at) {
    uint64_t count = 0;
    int i;
    for (i = 0; i < 8; i++) count = count << 8 | at[i];
    return count;
}

/* Nonce of a prefix of 16 bytes and a counter, or of a prefix of 8 bytes and 16 random bytes. */
static void nonce_of(unsigned char *nonce, const char *prefix, const unsigned char *rest) {
    const size_t length = strlen(prefix);
    memcpy(nonce, prefix, length), memcpy(nonce + length, rest, NONCE - length);
}

void curve_begin(curve_session *session, const unsigned char *server_key) {
    memset(session, 0, sizeof *session);
    session->is_server = server_key == NULL;
    session->sent = session->received = 0;
    if (server_key != NULL) memcpy(session->peer, server_key, CURVE_KEY);
    crypto_box_keypair(session->public, session->secret);
}

size_t curve_hello(curve_session *session, unsigned char *to) { /* box [64 zeros] (C' -> S) */
    unsigned char nonce[NONCE], zeros[64] = {0};
    memset(to, 0, 200);
    memcpy(to, "\5HELLO\1\0", 8), memcpy(to + 80, session->public, CURVE_KEY);
    put_count(to + 112, ++session->sent);
    nonce_of(nonce, "CurveZMQHELLO---", to + 112);
    return crypto_box_easy(to + 120, zeros, sizeof zeros, nonce, session->peer, session->secret) == 0 ? 200 : 0;
}

/* HELLO of a client: reply with WELCOME, box [S' + cookie] (S -> C'). */
static curve_result welcome(curve_session *session, const unsigned char *hello, size_t size, unsigned char *to,
                            size_t *replied) {
    unsigned char nonce[NONCE], zeros[64], plain[CURVE_KEY + CURVE_COOKIE];
    if (size != 200 || memcmp(hello, "\5HELLO\1\0", 8) != 0) return CURVE_UNREADABLE;
    memcpy(session->theirs, hello + 80, CURVE_KEY);
    nonce_of(nonce, "CurveZMQHELLO---", hello + 112);
    if (crypto_box_open_easy(zeros, hello + 120, 80, nonce, session->theirs, own_secret) != 0) return CURVE_UNREADABLE;
    session->received = count_at(hello + 112);
    randombytes_buf(session->cookie, sizeof session->cookie);
    memcpy(plain, session->public, CURVE_KEY), memcpy(plain + CURVE_KEY, session->cookie, CURVE_COOKIE);
    memcpy(to, "\7WELCOME", 8), randombytes_buf(to + 8, 16);
    nonce_of(nonce, "WELCOME-", to + 8);
    if (crypto_box_easy(to + 24, plain, sizeof plain, nonce, session->theirs, own_secret) != 0) return CURVE_UNREADABLE;
    *replied = 168;
    return CURVE_WAITING;
}

/* WELCOME of a server: reply with INITIATE, box [C + vouch + metadata] (C' -> S'), vouch = box [C' + S] (C -> S'). */
static curve_result initiate(curve_session *session, const unsigned char *given, size_t size, const void *metadata,
                             size_t metadata_size, unsigned char *to, size_t *replied) {
    unsigned char nonce[NONCE], plain[CURVE_COMMAND], vouched[2 * CURVE_KEY];
    if (size != 168 || memcmp(given, "\7WELCOME", 8) != 0 || metadata_size > 512) return CURVE_UNREADABLE;
    nonce_of(nonce, "WELCOME-", given + 8);
    if (crypto_box_open_easy(plain, given + 24, 144, nonce, session->peer, session->secret) != 0)
        return CURVE_UNREADABLE;
    memcpy(session->theirs, plain, CURVE_KEY);
    memcpy(to, "\10INITIATE", 9), memcpy(to + 9, plain + CURVE_KEY, CURVE_COOKIE);
    if (crypto_box_beforenm(session->shared, session->theirs, session->secret) != 0) return CURVE_UNREADABLE;
    memcpy(plain, own_public, CURVE_KEY), randombytes_buf(plain + 32, 16);
    nonce_of(nonce, "VOUCH---", plain + 32);
    memcpy(vouched, session->public, CURVE_KEY), memcpy(vouched + CURVE_KEY, session->peer, CURVE_KEY);
    if (crypto_box_easy(plain + 48, vouched, sizeof vouched, nonce, session->theirs, own_secret) != 0)
        return CURVE_UNREADABLE;
    memcpy(plain + 128, metadata, metadata_size);
    put_count(to + 105, ++session->sent);
    nonce_of(nonce, "CurveZMQINITIATE", to + 105);
    crypto_box_easy_afternm(to + 113, plain, 128 + metadata_size, nonce, session->shared);
    *replied = 113 + MAC + 128 + metadata_size;
    return CURVE_WAITING;
}

/* INITIATE of a client: check its key, and reply with READY, box [metadata] (S' -> C'). */
static curve_result ready(curve_session *session, const unsigned char *given, size_t size, const void *metadata,
                          size_t metadata_size, unsigned char *to, size_t *replied) {
    unsigned char nonce[NONCE], plain[CURVE_COMMAND], vouched[2 * CURVE_KEY];
    char line[CURVE_COMMAND];
    if (size < 113 + MAC + 128 || size > CURVE_COMMAND || memcmp(given, "\10INITIATE", 9) != 0 ||
        sodium_memcmp(given + 9, session->cookie, CURVE_COOKIE) != 0 || count_at(given + 105) <= session->received ||
        crypto_box_beforenm(session->shared, session->theirs, session->secret) != 0)
        return CURVE_UNREADABLE;
    nonce_of(nonce, "CurveZMQINITIATE", given + 105);
    if (crypto_box_open_easy_afternm(plain, given + 113, size - 113, nonce, session->shared) != 0)
        return CURVE_UNREADABLE;
    memcpy(session->peer, plain, CURVE_KEY);
    nonce_of(nonce, "VOUCH---", plain + 32);
    if (crypto_box_open_easy(vouched, plain + 48, 80, nonce, session->peer, session->secret) != 0 ||
        sodium_memcmp(vouched, session->theirs, CURVE_KEY) != 0 ||
        sodium_memcmp(vouched + CURVE_KEY, own_public, CURVE_KEY) != 0)
        return CURVE_UNREADABLE;
    if (!curve_is_allowed(session->peer, line, sizeof line)) return CURVE_NOT_ALLOWED;
    session->received = count_at(given + 105);
    memcpy(to, "\5READY", 6), put_count(to + 6, ++session->sent);
    nonce_of(nonce, "CurveZMQREADY---", to + 6);
    crypto_box_easy_afternm(to + 14, metadata, metadata_size, nonce, session->shared);
    *replied = 14 + MAC + metadata_size;
    return CURVE_OPEN;
}

/* READY of a server. */
static curve_result finish(curve_session *session, const unsigned char *given, size_t size) {
    unsigned char nonce[NONCE], plain[CURVE_COMMAND];
    if (size < 14 + MAC || size > CURVE_COMMAND || memcmp(given, "\5READY", 6) != 0) return CURVE_UNREADABLE;
    nonce_of(nonce, "CurveZMQREADY---", given + 6);
    if (crypto_box_open_easy_afternm(plain, given + 14, size - 14, nonce, session->shared) != 0) return CURVE_UNREADABLE;
    session->received = count_at(given + 6);
    return CURVE_OPEN;
}

curve_result curve_handshake(curve_session *session, const unsigned char *command, size_t size, const void *metadata,
                             size_t metadata_size, unsigned char *to, size_t *replied) {
    const int stage = session->stage++;
    *replied = 0;
    if (session->is_server)
        return stage == 0   ? welcome(session, command, size, to, replied)
               : stage == 1 ? ready(session, command, size, metadata, metadata_size, to, replied)
                            : CURVE_UNREADABLE;
    return stage == 0   ? initiate(session, command, size, metadata, metadata_size, to, replied)
           : stage == 1 ? finish(session, command, size)
                        : CURVE_UNREADABLE;
}

/* -- messages */

void curve_encrypt(curve_session *session, unsigned flags, const void *data, size_t size, unsigned char *to) {
    unsigned char nonce[NONCE];
    memcpy(to, "\7MESSAGE", 8), put_count(to + 8, ++session->sent);
    nonce_of(nonce, session->is_server ? "CurveZMQMESSAGES" : "CurveZMQMESSAGEC", to + 8);
    to[16] = (unsigned char)flags;
    if (size > 0) memmove(to + 17, data, size);
    crypto_box_easy_afternm(to + 16, to + 16, size + 1, nonce, session->shared); /* in place: may overlap */
}

long curve_decrypt(curve_session *session, const unsigned char *frame, size_t size, unsigned char *to) {
    unsigned char nonce[NONCE];
    if (size < CURVE_MESSAGE || memcmp(frame, "\7MESSAGE", 8) != 0 || count_at(frame + 8) <= session->received) return -1;
    nonce_of(nonce, session->is_server ? "CurveZMQMESSAGEC" : "CurveZMQMESSAGES", frame + 8);
    if (crypto_box_open_easy_afternm(to, frame + 16, size - 16, nonce, session->shared) != 0) return -1;
    session->received = count_at(frame + 8);
    return (long)(size - CURVE_MESSAGE);
}
#else
typedef int curve_is_left_out; /* ISO C asks for a declaration */
#endif
