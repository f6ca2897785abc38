/* amqp_link.c: see amqp_link.h. */
#include "amqp_link.h"

#include <stdio.h>
#include <string.h>

#define PORT "5672"
#define FRAME_MAX (128u << 10)

static bool send_out(struct amqp_link *link) {
    bool is_sent = !link->out.failed && server_link_send(&link->link, link->out.bytes, link->out.size);
    if (link->out.failed) (void)server_link_fail(&link->link, "out of memory");
    amqp_out_free(&link->out);
    return is_sent;
}

/* Reads the next method; skips heartbeats. The method is valid until the next call. */
static bool next_method(struct amqp_link *link, struct amqp_method *out) {
    const char *head, *payload;
    for (;;) {
        if (!server_link_bytes(&link->link, AMQP_FRAME_HEAD, &head)) return false;
        struct amqp_bytes rest = {(const uint8_t *)head, AMQP_FRAME_HEAD};
        uint64_t type = 0, channel = 0, size = 0;
        (void)(amqp_take_number(&rest, 1, &type) && amqp_take_number(&rest, 2, &channel) &&
               amqp_take_number(&rest, 4, &size));
        if (memcmp(head, "AMQP", 4) == 0 || size > FRAME_MAX)
            return server_link_fail(&link->link, "sent no frame of AMQP 0-9-1: it may be another kind of server");
        if (!server_link_bytes(&link->link, (size_t)size + 1, &payload)) return false;
        if (type == AMQP_FRAME_HEARTBEAT) continue;
        if (type == AMQP_FRAME_METHOD && amqp_method_read((struct amqp_bytes){(const uint8_t *)payload, size}, out))
            return true;
        return server_link_fail(&link->link, "sent a malformed frame");
    }
}

/* Keeps the text of connection.close or channel.close, which gives the reason. */
static void keep_text(struct amqp_link *link, const struct amqp_method *method) {
    const struct amqp_bytes text = method->fields[AMQP_CHANNEL_CLOSE_reply_text].bytes;
    snprintf(link->refusal, sizeof(link->refusal), "%u %.*s",
             (unsigned)method->fields[AMQP_CHANNEL_CLOSE_reply_code].number, (int)text.size, (const char *)text.at);
    for (char *at = link->refusal; *at != '\0'; at++)
        if ((unsigned char)*at < ' ') *at = '?';
}

/* Waits for a method of this kind. Returns false if the connection has failed. */
static bool await(struct amqp_link *link, enum amqp_method_kind kind, struct amqp_method *out) {
    while (next_method(link, out)) {
        if (out->kind == kind || out->kind == AMQP_CHANNEL_CLOSE) return true;
        if (out->kind == AMQP_CONNECTION_CLOSE) {
            keep_text(link, out);
            return server_link_fail(&link->link, "%s", link->refusal);
        }
    }
    return false;
}

static bool open_channel(struct amqp_link *link) {
    struct amqp_method method = {.kind = AMQP_UNKNOWN_METHOD};
    amqp_put_method(&link->out, 1, AMQP_CHANNEL_OPEN, amqp_text(""));
    return send_out(link) && await(link, AMQP_CHANNEL_OPEN_OK, &method) && method.kind == AMQP_CHANNEL_OPEN_OK;
}

static bool log_in(struct amqp_link *link, const char *user, const char *password) {
    struct amqp_method method = {.kind = AMQP_UNKNOWN_METHOD};
    struct amqp_out response = {0}, properties = {0};
    amqp_put(&response, "", 1);
    amqp_put(&response, user, strlen(user) + 1);
    amqp_put(&response, password, strlen(password));
    amqp_put_field(&properties, "capabilities", 'F');
    const size_t begin = amqp_put_begin(&properties);
    amqp_put_field(&properties, "authentication_failure_close", 't');
    amqp_put_number(&properties, 1, 1);
    amqp_put_end(&properties, begin);
    amqp_put_text_field(&properties, "product", amqp_text("tarry"));
    amqp_put_method(&link->out, 0, AMQP_CONNECTION_START_OK, (struct amqp_bytes){properties.bytes, properties.size},
                    amqp_text("PLAIN"), (struct amqp_bytes){response.bytes, response.size}, amqp_text("en_US"));
    link->out.failed |= properties.failed || response.failed;
    amqp_out_free(&response);
    amqp_out_free(&properties);
    if (!send_out(link) || !await(link, AMQP_CONNECTION_TUNE, &method)) return false;
    const unsigned channels = (unsigned)method.fields[AMQP_CONNECTION_TUNE_channel_max].number;
    const unsigned frame = (unsigned)method.fields[AMQP_CONNECTION_TUNE_frame_max].number;
    amqp_put_method(&link->out, 0, AMQP_CONNECTION_TUNE_OK, channels,
                    frame > 0 && frame < FRAME_MAX ? frame : FRAME_MAX, 0u);
    amqp_put_method(&link->out, 0, AMQP_CONNECTION_OPEN, amqp_text("/"), amqp_text(""), 0u);
    return send_out(link) && await(link, AMQP_CONNECTION_OPEN_OK, &method);
}

bool amqp_link_open(struct amqp_link *link, const char *address, const char *user, const char *password,
                    uint64_t timeout_ms) {
    struct amqp_method method = {.kind = AMQP_UNKNOWN_METHOD};
    *link = (struct amqp_link){.link = {.fd = -1}};
    if (!server_link_open(&link->link, address, PORT, timeout_ms)) return false;
    amqp_put(&link->out, AMQP_HEADER, AMQP_HEADER_SIZE);
    return send_out(link) && await(link, AMQP_CONNECTION_START, &method) && log_in(link, user, password) &&
           open_channel(link);
}

enum amqp_link_result amqp_link_ask(struct amqp_link *link, enum amqp_method_kind answer) {
    struct amqp_method method = {.kind = AMQP_UNKNOWN_METHOD};
    if (!send_out(link) || !await(link, answer, &method)) return AMQP_LINK_LOST;
    if (method.kind == answer) return AMQP_LINK_DONE;
    keep_text(link, &method);
    amqp_put_method(&link->out, 1, AMQP_CHANNEL_CLOSE_OK);
    return open_channel(link) ? AMQP_LINK_REFUSED : AMQP_LINK_LOST;
}

void amqp_link_close(struct amqp_link *link) {
    struct amqp_method method = {.kind = AMQP_UNKNOWN_METHOD};
    if (link->link.fd >= 0 && link->link.error[0] == '\0') {
        amqp_put_method(&link->out, 0, AMQP_CONNECTION_CLOSE, 200u, amqp_text(""), 0u, 0u);
        (void)(send_out(link) && await(link, AMQP_CONNECTION_CLOSE_OK, &method));
    }
    amqp_out_free(&link->out);
    server_link_close(&link->link);
}
