/* http_head.c: see http_head.h. Stricter than RFC 9112 lets a server be, which may refuse what it does not need: lines
 * end in CR LF, no folded headers, no blank before a colon. What another reader of the same bytes might take otherwise
 * is refused. */
#include "http_head.h"

#include <string.h>
#include <strings.h>

struct span {
    const char *at;
    size_t size;
};

#define REFUSED(number, sentence) ((struct http_refusal){.status = (number), .reason = (sentence)})
static const struct http_refusal taken;

static bool is_alphanumeric(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_one_of(char c, const char *set) {
    return c != '\0' && strchr(set, c) != NULL;
}

/* RFC 9110: a method, a header's name. */
static bool is_token(struct span text) {
    for (size_t i = 0; i < text.size; i++)
        if (!is_alphanumeric(text.at[i]) && !is_one_of(text.at[i], "!#$%&'*+-.^_`|~")) return false;
    return text.size > 0;
}

static bool is_same(struct span text, const char *word) {
    return text.size == strlen(word) && strncasecmp(text.at, word, text.size) == 0;
}

/* Cuts off what lies before the next `end`, which goes too. False: there is none. */
static bool cut(struct span *rest, char end, struct span *out) {
    const char *found = memchr(rest->at, end, rest->size);
    if (found == NULL) return false;
    *out = (struct span){rest->at, (size_t)(found - rest->at)};
    rest->size -= out->size + 1;
    rest->at = found + 1;
    return true;
}

size_t http_head_end(const char *data, size_t size, size_t from) {
    for (size_t i = from; i < size; i++) {
        if (data[i] != '\n') continue;
        size_t before = i > 0 && data[i - 1] == '\r' ? i - 1 : i; /* where the line's own bytes end */
        if (before == 0 || data[before - 1] == '\n') return i + 1;
    }
    return 0;
}

bool http_head_is_text(const char *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        if ((data[i] < ' ' || data[i] > '~') && data[i] != '\r' && data[i] != '\n') return false;
    return true;
}

/* ---- the request line */

/* A path that means itself, and perhaps a query: there is nothing to be decoded, and nothing to be resolved. */
static bool is_plain_target(struct span target) {
    if (target.size == 0 || target.at[0] != '/') return false;
    bool is_path = true;
    for (size_t i = 0; i < target.size; i++) {
        char c = target.at[i];
        if (c == '?') is_path = false;
        if (!is_alphanumeric(c) && !is_one_of(c, "/._~-?=&")) return false;
        bool begins = is_path && i > 0 && target.at[i - 1] == '/';
        if (begins && (c == '/' || c == '.')) return false;
    }
    return true;
}

static struct http_refusal judge_line(struct span line) {
    struct span method, target;
    if (!cut(&line, ' ', &method) || !cut(&line, ' ', &target) || !is_token(method))
        return REFUSED(400, "the first line is not METHOD TARGET HTTP/1.1");
    if (!is_same(line, "HTTP/1.1") && !is_same(line, "HTTP/1.0"))
        return REFUSED(505, "this port speaks HTTP/1.1, and WebSocket over it");
    if (target.size > HTTP_TARGET_SIZE_MAX) return REFUSED(414, "the target is longer than 256 bytes");
    if (!is_plain_target(target))
        return REFUSED(400,
                       "the target is not a plain path: letters, digits and ._~- between slashes, without escapes");
    if (strncmp(method.at, "GET ", 4) != 0 && strncmp(method.at, "HEAD ", 5) != 0)
        return REFUSED(405, "this port takes GET and HEAD; requests to the broker travel by WebSocket");
    return taken;
}

/* ---- headers */

static bool is_allowed(struct span origin, const char *origins) {
    while (*origins != '\0') {
        size_t size = strcspn(origins, " ");
        if (size > 0 && size == origin.size && strncasecmp(origin.at, origins, size) == 0) return true;
        origins += size + (origins[size] == ' ');
    }
    return false;
}

static struct span trimmed(struct span text) {
    while (text.size > 0 && *text.at == ' ') text.at++, text.size--;
    while (text.size > 0 && text.at[text.size - 1] == ' ') text.size--;
    return text;
}

/* Status 403 comes before all others: what a page asks for is nobody's business. */
static struct http_refusal judge_header(struct span line, const char *origins) {
    struct span name;
    if (!cut(&line, ':', &name) || !is_token(name)) return REFUSED(400, "a header is not NAME: VALUE");
    struct span value = trimmed(line);
    if (is_same(name, "Origin") && !is_allowed(value, origins))
        return REFUSED(403, "web pages of this origin may not use the broker (tarryd --allow-origin)");
    if (is_same(name, "Transfer-Encoding") || (is_same(name, "Content-Length") && !is_same(value, "0")))
        return REFUSED(413, "a request over HTTP has no body here; requests to the broker travel by WebSocket");
    return taken;
}

struct http_refusal http_head_judge(const char *head, size_t size, const char *origins) {
    struct span rest = {head, size}, line = {head, 0};
    struct http_refusal refusal = taken;
    size_t count = 0;
    if (!http_head_is_text(head, size)) return REFUSED(400, "the head has bytes that are not printable ASCII");
    while (cut(&rest, '\n', &line)) {
        if (line.size == 0 || line.at[line.size - 1] != '\r' || memchr(line.at, '\r', line.size - 1) != NULL)
            return REFUSED(400, "a line of the head does not end in CR LF");
        line.size--;
        if (line.size == 0) break;
        struct http_refusal next = count == 0 ? judge_line(line) : judge_header(line, origins);
        bool is_first = refusal.status == 0 || next.status == 403;
        if (next.status != 0 && is_first) refusal = next;
        if (count++ > HTTP_HEADERS_MAX) return REFUSED(431, "there are more than 64 headers");
    }
    if (count == 0) return REFUSED(400, "the first line is empty");
    if (rest.size != 0 || line.size != 0) return REFUSED(400, "the head has no end");
    return refusal;
}

bool http_is_origin(const char *text) {
    if (strcmp(text, "null") == 0) return true;
    const char *host = strstr(text, "://");
    if (host == NULL || host == text) return false;
    for (const char *at = text; at < host; at++)
        if (!is_alphanumeric(*at) && !is_one_of(*at, "+-.")) return false;
    host += 3;
    if (*host == '\0') return false;
    for (const char *at = host; *at != '\0'; at++)
        if (!is_alphanumeric(*at) && !is_one_of(*at, ".-_:[]")) return false;
    return true;
}
