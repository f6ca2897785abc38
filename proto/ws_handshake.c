/* ws_handshake.c: see ws_handshake.h. A response may be hostile. It is refused if a header is folded, repeated although
 * only one is allowed, or contains a control character. A protocol or extension that was not requested is refused too.
 */
#include "ws_handshake.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Constant of RFC 6455, section 1.3, from which Sec-WebSocket-Accept is computed. */
#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

static const char no_broker[] =
    "the server there is not a broker: it does not speak Tarry's protocol (WebSocket at /rpc)";

struct text {
    const char *at;
    size_t size;
};

static bool is(struct text text, const char *word) {
    return text.size == strlen(word) && strncasecmp(text.at, word, text.size) == 0;
}

static bool is_exactly(struct text text, const char *word) {
    return text.size == strlen(word) && memcmp(text.at, word, text.size) == 0;
}

static struct text trim(struct text text) {
    while (text.size > 0 && (*text.at == ' ' || *text.at == '\t')) text.at++, text.size--;
    while (text.size > 0 && (text.at[text.size - 1] == ' ' || text.at[text.size - 1] == '\t')) text.size--;
    return text;
}

/* Returns whether an element of a comma-separated list equals `word`; `equals` compares. */
static bool lists(struct text list, const char *word, bool (*equals)(struct text text, const char *word)) {
    for (;;) {
        const char *comma = memchr(list.at, ',', list.size);
        const size_t size = comma != NULL ? (size_t)(comma - list.at) : list.size;
        if (equals(trim((struct text){list.at, size}), word)) return true;
        if (comma == NULL) return false;
        list = (struct text){comma + 1, list.size - size - 1};
    }
}

void ws_accept(const char *key, char accept[WS_ACCEPT_SIZE + 1]) {
    unsigned char text[WS_KEY_SIZE + sizeof(GUID)], digest[SHA_DIGEST_LENGTH];
    const int size = snprintf((char *)text, sizeof(text), "%.24s%s", key, GUID);
    SHA1(text, (size_t)size, digest);
    EVP_EncodeBlock((unsigned char *)accept, digest, sizeof(digest));
}

/* ---- server */

bool ws_key_is_valid(const char *key, size_t size) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t characters = WS_KEY_SIZE - 2; /* number of characters of the key before its two final "=" */
    if (size != WS_KEY_SIZE || memcmp(key + characters, "==", 2) != 0) return false;
    for (size_t i = 0; i < characters; i++)
        if (memchr(alphabet, key[i], sizeof(alphabet) - 1) == NULL) return false;
    return true;
}

bool ws_protocols_include(const char *list, size_t size, const char *protocol) {
    return lists((struct text){list, size}, protocol, is_exactly);
}

size_t ws_response(const char *key, const char *protocol, char *out, size_t size) {
    char accept[WS_ACCEPT_SIZE + 1];
    ws_accept(key, accept);
    /* "websocket" in lower case: nng 1.5.2 compares this value byte by byte. */
    const int made = snprintf(out, size,
                              "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                              "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
                              accept, protocol);
    return made > 0 && (size_t)made < size ? (size_t)made : 0;
}

/* ---- client: the request */

size_t ws_request_write(const struct ws_request *request, const uint8_t nonce[WS_NONCE_SIZE],
                        char out_key[WS_KEY_SIZE + 1], char *out, size_t size) {
    EVP_EncodeBlock((unsigned char *)out_key, nonce, WS_NONCE_SIZE);
    const bool has_bearer = request->bearer[0] != 0;
    const int made =
        snprintf(out, size,
                 "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: " WS_VERSION "\r\nSec-WebSocket-Protocol: %s\r\n"
                 "%s%s%s\r\n",
                 request->path, request->host, out_key, request->protocol, has_bearer ? "Authorization: Bearer " : "",
                 request->bearer, has_bearer ? "\r\n" : "");
    return made > 0 && (size_t)made < size ? (size_t)made : 0;
}

/* ---- client: the response */

/* Required headers that have been seen. */
struct seen {
    bool upgrade;
    bool connection;
    unsigned accept;
    unsigned protocol;
    bool accept_fits;
    bool protocol_fits;
    bool extensions;
    bool wants_token;
};

static bool is_token(char character) {
    return character > ' ' && character < 127 && strchr("()<>@,;:\\\"/[]?={}", character) == NULL;
}

/* Splits "Name: value". False: the line has another form. */
static bool split(struct text line, struct text *out_name, struct text *out_value) {
    const char *colon = memchr(line.at, ':', line.size);
    if (colon == NULL || colon == line.at) return false;
    *out_name = (struct text){line.at, (size_t)(colon - line.at)};
    *out_value = trim((struct text){colon + 1, line.size - out_name->size - 1});
    for (size_t i = 0; i < out_name->size; i++)
        if (!is_token(out_name->at[i])) return false;
    for (size_t i = 0; i < out_value->size; i++) {
        const unsigned char byte = (unsigned char)out_value->at[i];
        if ((byte < ' ' && byte != '\t') || byte == 127) return false;
    }
    return true;
}

static bool take_header(struct text line, const char *accept, const char *protocol, struct seen *seen) {
    struct text name, value;
    if (!split(line, &name, &value)) return false;
    if (is(name, "Upgrade")) seen->upgrade = is(value, "websocket");
    if (is(name, "Connection")) seen->connection = seen->connection || lists(value, "upgrade", is);
    if (is(name, "Sec-WebSocket-Extensions")) seen->extensions = true;
    if (is(name, "WWW-Authenticate")) seen->wants_token = true;
    if (is(name, "Sec-WebSocket-Accept")) {
        seen->accept++;
        seen->accept_fits = is_exactly(value, accept);
    }
    if (is(name, "Sec-WebSocket-Protocol")) {
        seen->protocol++;
        seen->protocol_fits = is_exactly(value, protocol);
    }
    return true;
}

/* Parses "HTTP/1.1 101 …". Returns the status; 0: the line has another form. */
static unsigned status_of(struct text line) {
    const char *at = line.at;
    if (line.size < 12 || memcmp(at, "HTTP/1.", 7) != 0 || (at[7] != '0' && at[7] != '1') || at[8] != ' ') return 0;
    unsigned status = 0;
    for (int i = 9; i < 12; i++) {
        if (at[i] < '0' || at[i] > '9') return 0;
        status = status * 10 + (unsigned)(at[i] - '0');
    }
    return line.size == 12 || at[12] == ' ' ? status : 0;
}

static enum ws_verdict refuse(char said[WS_SAID_MAX], const char *why) {
    snprintf(said, WS_SAID_MAX, "%s", why);
    return WS_RESPONSE_REFUSED;
}

/* Returns the size of the body's first line, if the body is plain text. A broker that refuses a client writes the
 * reason into that line. */
static size_t reason_size(const char *body, size_t size) {
    size_t count = 0;
    while (count < size && body[count] >= ' ' && body[count] < 127) count++;
    return body[0] == '<' || body[0] == '{' ? 0 : count;
}

static const char no_reason[] = "it may require a token, or a proxy may be in front of the broker";

/* Refuses the response. `wants_token`: the response has a WWW-Authenticate header. */
static enum ws_verdict refuse_status(char said[WS_SAID_MAX], unsigned status, bool wants_token, const char *body,
                                     size_t size) {
    const int reason = size > 0 ? (int)reason_size(body, size < 160 ? size : 160) : 0;
    const bool is_denied = status == 401 || status == 403 || (status == 429 && wants_token);
    if (is_denied)
        snprintf(said, WS_SAID_MAX, "the server there refuses this client (HTTP %u): %.*s", status,
                 reason > 0 ? reason : (int)sizeof(no_reason), reason > 0 ? body : no_reason);
    else if (status == 429 || status >= 500)
        snprintf(said, WS_SAID_MAX, "does not accept a connection now (HTTP %u%s%.*s)", status, reason > 0 ? ": " : "",
                 reason, body);
    else
        snprintf(said, WS_SAID_MAX, "%s; it replies with HTTP %u", no_broker, status);
    return is_denied ? WS_RESPONSE_DENIED : WS_RESPONSE_REFUSED;
}

static enum ws_verdict judge_head(struct text head, const char *accept, const char *protocol, unsigned *out_status,
                                  bool *out_wants_token, char said[WS_SAID_MAX]) {
    struct seen seen = {0};
    for (unsigned number = 0; head.size > 0; number++) {
        const char *end = memmem(head.at, head.size, "\r\n", 2);
        const struct text line = {head.at, end != NULL ? (size_t)(end - head.at) : head.size};
        if (number > WS_HEADERS_MAX) return refuse(said, "its reply has more headers than a broker sends");
        if (number == 0)
            *out_status = status_of(line);
        else if (!take_header(line, accept, protocol, &seen))
            return refuse(said, "its reply is not HTTP: a header is malformed");
        if (number == 0 && *out_status == 0) return refuse(said, no_broker);
        const size_t used = line.size + (end != NULL ? 2 : 0);
        head = (struct text){head.at + used, head.size - used};
    }
    *out_wants_token = seen.wants_token;
    if (*out_status != 101) return WS_RESPONSE_NEEDS_MORE; /* the status alone explains the refusal */
    if (!seen.upgrade || !seen.connection) return refuse(said, no_broker);
    if (seen.accept != 1 || !seen.accept_fits)
        return refuse(said, "its Sec-WebSocket-Accept does not match the client's key: a proxy may have replied");
    if (seen.protocol != 1 || !seen.protocol_fits) return refuse(said, no_broker);
    if (seen.extensions) return refuse(said, "it uses a WebSocket extension that the client did not request");
    return WS_RESPONSE_ACCEPTED;
}

enum ws_verdict ws_response_judge(const char *bytes, size_t size, const char *accept, const char *protocol,
                                  size_t *out_used, char said[WS_SAID_MAX]) {
    static const char begins[] = "HTTP/1.";
    const size_t known = size < strlen(begins) ? size : strlen(begins);
    if (memcmp(bytes, begins, known) != 0) return refuse(said, no_broker);
    const size_t looked_at = size < WS_RESPONSE_MAX ? size : WS_RESPONSE_MAX;
    const char *end = memmem(bytes, looked_at, "\r\n\r\n", 4);
    if (end == NULL) {
        if (size < WS_RESPONSE_MAX) return WS_RESPONSE_NEEDS_MORE;
        return refuse(said, "the headers of its reply are longer than a broker's");
    }
    unsigned status = 0;
    bool wants_token = false;
    const size_t head_size = (size_t)(end - bytes);
    const struct text head = {bytes, head_size};
    enum ws_verdict verdict = judge_head(head, accept, protocol, &status, &wants_token, said);
    if (verdict == WS_RESPONSE_NEEDS_MORE)
        return refuse_status(said, status, wants_token, end + 4, size - head_size - 4);
    if (verdict == WS_RESPONSE_ACCEPTED) *out_used = head_size + 4;
    return verdict;
}
