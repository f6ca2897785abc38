/* web.h: data that a WebSocket client sends, correct and wrong (RFC 6455, nng's SP mappings). */
#ifndef TARRY_TESTS_FUZZ_BROKER_WEB_H
#define TARRY_TESTS_FUZZ_BROKER_WEB_H

#include <stdbool.h>

#include "out.h"
#include "random.h"

#define WEB_RPC "rep.sp.nanomsg.org"
#define WEB_LANE "push.sp.nanomsg.org"

/* Writes a correct upgrade request. `secret` is the secret of a session, in hexadecimal; NULL: none. */
void web_upgrade(struct out *out, const char *path, const char *protocol, const char *secret);
/* Writes a message, in one frame or several, sometimes with a ping between them. */
void web_message(struct random *random, const void *data, size_t size, struct out *out);
/* Writes frames that break the rules: masks, lengths, opcodes, reserved bits, order. */
void web_rude_message(struct random *random, const void *data, size_t size, struct out *out);
/* Writes one or several requests that are not HTTP, or that have an error or an unusual part. `plain_uri`: none of
 * their URIs ends in %XX. */
void web_noise(struct random *random, bool plain_uri, struct out *out);

enum web_found { WEB_NOTHING, WEB_HEAD, WEB_MESSAGE, WEB_CONTROL, WEB_BROKEN };
/* Parses the broker's data. All of it must be zero at first. */
struct web_reader {
    struct out in;
    bool upgraded;
    bool refused; /* the status of the upgrade was not 101 */
    struct out message;
};
/* Returns the next complete item of the received data. A message is in `message` until the next call. */
enum web_found web_next(struct web_reader *reader);
void web_reader_deinit(struct web_reader *reader);

#endif
