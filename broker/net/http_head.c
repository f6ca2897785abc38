/* http_head.c: see http_head.h. */
#include "http_head.h"

#include <string.h>
#include <strings.h>

static bool refuse(struct head_refusal *out, unsigned status, const char *sentence) {
    *out = (struct head_refusal){status, sentence};
    return false;
}

/* True for each byte that a token may contain (RFC 9110, 5.6.2). */
static const bool token_bytes[256] = {
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['!'] = true, ['#'] = true, ['$'] = true,
    ['%'] = true,         ['&'] = true,         ['\''] = true,        ['*'] = true, ['+'] = true, ['-'] = true,
    ['.'] = true,         ['^'] = true,         ['_'] = true,         ['`'] = true, ['|'] = true, ['~'] = true};

static bool is_token(unsigned char c) {
    return token_bytes[c];
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool is_word(const char *text, const char *word) {
    for (; *word != '\0' && lower(*text) == *word; text++) word++;
    return *word == '\0' && *text == '\0';
}

/* ---- the request line */

static enum head_method method_of(const char *text) {
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    enum head_method method = HEAD_GET;
    while (method != HEAD_OTHER && strcmp(text, names[method]) != 0) method++;
    return method;
}

static int hex_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes in place. False: a percent sign without two hexadecimal digits, or a byte that no name may contain. */
static bool decode(struct head_text *text, bool is_query) {
    char *to = text->text;
    for (const char *from = text->text; *from != '\0'; from++) {
        char c = *from;
        if (c == '%') {
            int high = hex_of(from[1]), low = high >= 0 ? hex_of(from[2]) : -1;
            if (low < 0 || (high == 0 && low == 0)) return false;
            c = (char)(high * 16 + low);
            from += 2;
        } else if (c == '+' && is_query) {
            c = ' ';
        }
        *to++ = c;
    }
    *to = '\0';
    text->size = (size_t)(to - text->text);
    return true;
}

/* Returns whether the segment is `.` or `..`: a proxy might remove `..` with the segment before it. */
static bool is_dots(const struct head_text *segment) {
    return strcmp(segment->text, ".") == 0 || strcmp(segment->text, "..") == 0;
}

/* Splits the path in place into segments: replaces each slash by a 0 byte, except the slash at the beginning. */
static bool split_path(struct head *head, char *path, struct head_refusal *out) {
    char *segment = path + 1;
    for (bool is_last = false; !is_last;) {
        char *end = segment + strcspn(segment, "/");
        is_last = *end == '\0';
        *end = '\0';
        if (head->segment_count == HEAD_SEGMENTS_MAX) return refuse(out, 404, "unknown path");
        struct head_text *text = &head->segments[head->segment_count++];
        text->text = segment;
        segment = end + 1;
        if (!decode(text, false))
            return refuse(out, 400, "the path contains a % without two hexadecimal digits, or a 0 byte");
        if (is_dots(text))
            return refuse(out, 400,
                          "the path contains . or ..: give such a queue or key in the body of POST /v1/commit");
    }
    return true;
}

static bool split_query(struct head *head, char *query, struct head_refusal *out) {
    while (query != NULL && *query != '\0') {
        char *next = strchr(query, '&');
        if (next != NULL) *next++ = '\0';
        if (head->parameter_count == HEAD_PARAMETERS_MAX) return refuse(out, 400, "the query has too many parameters");
        struct head_parameter *parameter = &head->parameters[head->parameter_count++];
        char *equals = strchr(query, '=');
        parameter->name.text = query;
        parameter->value.text = equals != NULL ? equals + 1 : query + strlen(query);
        if (equals != NULL) *equals = '\0';
        if (!decode(&parameter->name, true) || !decode(&parameter->value, true))
            return refuse(out, 400, "the query contains a % without two hexadecimal digits, or a 0 byte");
        query = next;
    }
    return true;
}

static bool read_target(struct head *head, char *target, struct head_refusal *out) {
    if (*target != '/') return refuse(out, 400, "the request target must be a path");
    for (const char *at = target; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f || *at == '#')
            return refuse(out, 400, "the request target contains a byte that must be escaped with %");
    char *query = strchr(target, '?');
    if (query != NULL) *query++ = '\0';
    return split_query(head, query, out) && split_path(head, target, out);
}

/* Parses a request line such as "POST /v1/tasks HTTP/1.1", terminated by a 0 byte. */
static bool read_request_line(struct head *head, char *line, bool *out_is_old, struct head_refusal *out) {
    char *target = strchr(line, ' ');
    char *version = target != NULL ? strchr(target + 1, ' ') : NULL;
    if (version == NULL || strchr(version + 1, ' ') != NULL || target == line)
        return refuse(out, 400,
                      "the first line of the request must be METHOD PATH VERSION, with one space between them");
    *target++ = *version++ = '\0';
    for (const char *at = line; *at != '\0'; at++)
        if (!is_token((unsigned char)*at)) return refuse(out, 400, "malformed method");
    head->method = method_of(line);
    *out_is_old = strcmp(version, "HTTP/1.0") == 0;
    if (!*out_is_old && strcmp(version, "HTTP/1.1") != 0)
        return refuse(out, 505, "unsupported HTTP version: use HTTP/1.1");
    return read_target(head, target, out);
}

/* ---- fields */

/* Returns whether a proxy might confuse the name with `known`, a field that defines the body. CGI and similar proxies
 * turn names into variables, where `_` and other marks become the same character as a hyphen. */
static bool looks_like(const char *name, const char *known) {
    for (; *name != '\0' && *known != '\0'; name++, known++) {
        char c = lower(*name);
        bool is_alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (c != *known && (is_alnum || *known != '-')) return false;
    }
    return *name == '\0' && *known == '\0';
}

static bool keep_field(struct head *head, const char *name, char *value, struct head_refusal *out) {
    static const char *const names[] = {
#define X(name, text) [HEAD_FIELD_##name] = text,
        HEAD_FIELDS(X)
#undef X
    };
    for (size_t i = 0; i < HEAD_FIELDS_KNOWN; i++) {
        if (!is_word(name, names[i])) continue;
        if (head->fields[i].text != NULL && i != HEAD_FIELD_agent)
            return refuse(out, 400, "a header field that may occur only once is repeated");
        head->fields[i] = (struct head_text){value, strlen(value)};
        return true;
    }
    if (looks_like(name, "content-length") || looks_like(name, "transfer-encoding"))
        return refuse(out, 400,
                      "the name of a header field could be confused with Content-Length or Transfer-Encoding");
    return true;
}

/* Flags collected from all lines of a head. */
struct said {
    bool keep_alive, upgrade; /* from Connection */
    bool websocket;           /* from Upgrade */
};

/* Returns whether the list (RFC 9110, 5.6.1) contains this member. */
static bool lists(const char *list, const char *member) {
    size_t member_size = strlen(member);
    while (*list != '\0') {
        size_t size = strcspn(list, ", \t");
        if (size == member_size && strncasecmp(list, member, size) == 0) return true;
        list += size + strspn(list + size, ", \t");
    }
    return false;
}

/* Reads Connection and Upgrade. Each is a list that may span several lines; unknown members are ignored. */
static void read_lists(struct head *head, const char *name, const char *value, struct said *said) {
    if (is_word(name, "connection")) {
        head->stays = head->stays && !lists(value, "close");
        said->keep_alive = said->keep_alive || lists(value, "keep-alive");
        said->upgrade = said->upgrade || lists(value, "upgrade");
    } else if (is_word(name, "upgrade")) {
        said->websocket = said->websocket || lists(value, "websocket");
    }
}

/* Parses one line, terminated by a 0 byte. */
static bool read_field(struct head *head, char *line, struct said *said, struct head_refusal *out) {
    char *colon = strchr(line, ':');
    if (colon == NULL || colon == line) return refuse(out, 400, "a header line has no name followed by a colon");
    for (const char *at = line; at < colon; at++)
        if (!is_token((unsigned char)*at))
            return refuse(out, 400, "the name of a header field contains an invalid byte");
    *colon = '\0';
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t size = strlen(value);
    while (size > 0 && (value[size - 1] == ' ' || value[size - 1] == '\t')) value[--size] = '\0';
    read_lists(head, line, value, said);
    return keep_field(head, line, value, out);
}

static bool read_length(struct head *head, struct head_refusal *out) {
    const char *text = head->fields[HEAD_FIELD_length].text;
    size_t size = head->fields[HEAD_FIELD_length].size;
    if (size == 0 || size > 18 || strspn(text, "0123456789") != size)
        return refuse(out, 400, "Content-Length must be a number of bytes");
    for (; *text != '\0'; text++) head->length = head->length * 10 + (uint64_t)(*text - '0');
    return true;
}

static bool read_body(struct head *head, bool is_old, struct head_refusal *out) {
    const char *coding = head->fields[HEAD_FIELD_coding].text, *expect = head->fields[HEAD_FIELD_expect].text;
    bool has_length = head->fields[HEAD_FIELD_length].text != NULL;
    if (head->fields[HEAD_FIELD_host].text == NULL && !is_old) return refuse(out, 400, "the Host header is missing");
    if (coding != NULL && (has_length || is_old))
        return refuse(out, 400, "Transfer-Encoding excludes Content-Length, and needs HTTP/1.1");
    if (coding != NULL && !is_word(coding, "chunked"))
        return refuse(out, 501, "unsupported Transfer-Encoding: only chunked is supported");
    if (expect != NULL && !is_word(expect, "100-continue"))
        return refuse(out, 417, "unsupported Expect: only 100-continue is supported");
    head->is_chunked = coding != NULL;
    head->wants_go_ahead = expect != NULL && !is_old;
    return !has_length || read_length(head, out);
}

/* ---- the whole head */

/* Returns the end of the head; 0: incomplete. `*out_is_bad`: a line does not end in CR LF, or contains a byte that no
 * line may contain. */
static size_t find_end(const char *bytes, size_t size, bool *out_is_bad) {
    /* true for the bytes that a line must not contain, and for CR and LF */
    static const bool special[256] = {[0 ... '\t' - 1] = true, ['\t' + 1 ... ' ' - 1] = true, [0x7f] = true};
    *out_is_bad = false;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (!special[c]) continue;
        if (c == '\r') {
            if (i + 1 < size && bytes[i + 1] != '\n') *out_is_bad = true;
        } else if (c == '\n') {
            if (i == 0 || bytes[i - 1] != '\r') *out_is_bad = true;
            if (i >= 3 && bytes[i - 3] == '\r' && bytes[i - 2] == '\n') return i + 1;
        } else {
            *out_is_bad = true;
        }
        if (*out_is_bad) return 0;
    }
    return 0;
}

/* Terminates the line at `at` with a 0 byte. Returns the start of the next line. `end`: the end of the head. */
static char *end_line(char *at, const char *end) {
    char *line_end = memchr(at, '\r', (size_t)(end - at)); /* find_end has checked that the line ends with CR LF */
    *line_end = '\0';
    return line_end + 2;
}

static bool read_lines(struct head *head, char *at, const char *end, struct head_refusal *out) {
    struct said said = {0};
    bool is_old;
    char *next = end_line(at, end);
    size_t count = 0;
    head->stays = true;
    if (!read_request_line(head, at, &is_old, out)) return false;
    for (at = next; at < end - 2; at = next) {
        next = end_line(at, end);
        if (++count > HEAD_FIELDS_MAX) return refuse(out, 431, "the request has more than 64 header fields");
        if (*at == ' ' || *at == '\t')
            return refuse(out, 400, "a header field continues on the next line (obs-fold), which is not allowed");
        if (!read_field(head, at, &said, out)) return false;
    }
    head->is_old = is_old;
    if (is_old && !said.keep_alive) head->stays = false;
    head->is_upgrade = head->method == HEAD_GET && !is_old && said.upgrade && said.websocket;
    return read_body(head, is_old, out);
}

/* Returns whether the bytes cannot begin a valid request. */
static bool begins_wrong(const char *bytes, size_t size) {
    size_t spaces = 0, i = 0;
    for (; i < size && bytes[i] != '\r'; i++) {
        if (bytes[i] == ' ')
            spaces++;
        else if (spaces == 0 && !is_token((unsigned char)bytes[i]))
            return true;
    }
    return (size > 0 && bytes[0] == ' ') || spaces > 2 || (i < size && spaces < 2);
}

enum head_result http_head_parse(char *bytes, size_t size, struct head *out, size_t *out_used,
                                 struct head_refusal *out_refusal) {
    bool is_bad;
    size_t looked = size < HEAD_SIZE_MAX ? size : HEAD_SIZE_MAX;
    size_t end = find_end(bytes, looked, &is_bad);
    if (is_bad) {
        refuse(out_refusal, 400, "a header line does not end with CR LF, or contains a control character");
        return HEAD_BAD;
    }
    if (end == 0 && begins_wrong(bytes, looked)) {
        refuse(out_refusal, 400,
               "the first line of the request must be METHOD PATH VERSION, with one space between them");
        return HEAD_BAD;
    }
    if (end == 0 && size < HEAD_SIZE_MAX) return HEAD_MORE;
    if (end == 0) {
        refuse(out_refusal, 431, "the request's headers are larger than 16 KiB");
        return HEAD_BAD;
    }
    *out = (struct head){0};
    *out_used = end;
    return read_lines(out, bytes, bytes + end, out_refusal) ? HEAD_DONE : HEAD_BAD;
}

char *head_path(const struct head *head, char out[HEAD_PATH_SIZE]) {
    size_t used = 0;
    for (size_t i = 0; i < head->segment_count; i++) {
        const struct head_text *segment = &head->segments[i];
        if (used + 1 + segment->size >= HEAD_PATH_SIZE) {
            used = 0;
            break;
        }
        out[used++] = '/';
        memcpy(out + used, segment->text, segment->size);
        used += segment->size;
    }
    out[used] = '\0';
    return out;
}

const struct head_text *head_parameter(const struct head *head, const char *name) {
    for (size_t i = 0; i < head->parameter_count; i++)
        if (strcmp(head->parameters[i].name.text, name) == 0) return &head->parameters[i].value;
    return NULL;
}

/* ---- chunks */

enum { SIZE, EXTENSION_BLANK, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, LINE, NAME, VALUE, VALUE_LF, LAST_LF, OVER };
#define DIGITS_MAX 8u

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* Returns whether the byte may be in a chunk extension or a trailer's value: no control character, so neither CR nor
 * LF. */
static bool is_text(char c) {
    unsigned char byte = (unsigned char)c;
    return byte == '\t' || (byte >= ' ' && byte != 0x7f);
}

/* Ignores a byte of an extension or a trailer, and sets the state to `state`. False: more than CHUNKS_PASSED_OVER_MAX
 * such bytes have arrived. */
static bool pass_over(struct chunks *chunks, int state) {
    chunks->state = state;
    return ++chunks->passed_over <= CHUNKS_PASSED_OVER_MAX;
}

/* Consumes a byte of a chunk's size or of its extensions, which are ignored (RFC 9112, 7.1.1). */
static bool step_size(struct chunks *chunks, char c) {
    int digit = chunks->state == SIZE ? hex_of(c) : -1;
    if (digit >= 0 && chunks->digits < DIGITS_MAX) {
        chunks->left = chunks->left * 16 + (uint64_t)digit;
        chunks->digits++;
        return true;
    }
    if (chunks->digits == 0) return false;
    if (c == '\r' && chunks->state != EXTENSION_BLANK) {
        chunks->state = SIZE_LF;
        return true;
    }
    if (chunks->state == EXTENSION) return is_text(c) && pass_over(chunks, EXTENSION);
    if (is_blank(c)) return pass_over(chunks, EXTENSION_BLANK);
    return c == ';' && pass_over(chunks, EXTENSION);
}

/* Consumes a byte behind the last chunk: of the empty line, or of a trailer, which is checked as strictly as a header
 * field and then ignored. */
static bool step_trailer(struct chunks *chunks, char c) {
    switch (chunks->state) {
    case LINE:
        if (c == '\r') {
            chunks->state = LAST_LF;
            return true;
        }
        return is_token((unsigned char)c) && pass_over(chunks, NAME);
    case NAME:
        return c == ':' ? pass_over(chunks, VALUE) : is_token((unsigned char)c) && pass_over(chunks, NAME);
    case VALUE:
        return c == '\r' ? pass_over(chunks, VALUE_LF) : is_text(c) && pass_over(chunks, VALUE);
    case VALUE_LF:
        return c == '\n' && pass_over(chunks, LINE);
    default: /* LAST_LF */
        chunks->state = OVER;
        return c == '\n';
    }
}

/* Consumes a byte outside of chunk data. False: the byte is not allowed there. */
static bool step(struct chunks *chunks, char c) {
    switch (chunks->state) {
    case SIZE:
    case EXTENSION_BLANK:
    case EXTENSION:
        return step_size(chunks, c);
    case SIZE_LF:
        chunks->state = chunks->left > 0 ? DATA : LINE;
        return c == '\n';
    case DATA_CR:
        chunks->state = DATA_LF;
        return c == '\r';
    case DATA_LF:
        *chunks = (struct chunks){.state = SIZE, .passed_over = chunks->passed_over};
        return c == '\n';
    default:
        return step_trailer(chunks, c);
    }
}

enum head_result chunks_take(struct chunks *chunks, char *bytes, size_t *size, char **out, size_t *out_size) {
    size_t at = 0;
    *out_size = 0;
    *out = bytes;
    while (at < *size && chunks->state != OVER) {
        if (chunks->state != DATA) {
            if (!step(chunks, bytes[at++])) return HEAD_BAD;
            continue;
        }
        size_t part = *size - at < chunks->left ? *size - at : (size_t)chunks->left;
        *out = bytes + at;
        *out_size = part;
        at += part;
        chunks->left -= part;
        if (chunks->left == 0) chunks->state = DATA_CR;
        break;
    }
    *size = at;
    return chunks->state == OVER ? HEAD_DONE : HEAD_MORE;
}
