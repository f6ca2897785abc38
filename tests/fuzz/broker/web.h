/* web.h: a WebSocket client's bytes, as they should be and as they should not be (RFC 6455, nng's SP mappings). */
#ifndef TARRY_TESTS_FUZZ_BROKER_WEB_H
#define TARRY_TESTS_FUZZ_BROKER_WEB_H

#include <stdbool.h>

#include "out.h"
#include "random.h"

#define WEB_RPC "rep.sp.nanomsg.org"
#define WEB_LANE "push.sp.nanomsg.org"

/* An upgrade request as a client makes it. `secret`: of a session, in hexadecimal; NULL: none. */
void web_upgrade(struct out *out, const char *path, const char *protocol, const char *secret);
/* A message, in one frame or in several, sometimes with a ping between them. */
void web_message(struct random *random, const void *data, size_t size, struct out *out);
/* The same against the rules: masks, lengths, opcodes, reserved bits, order. */
void web_rude_message(struct random *random, const void *data, size_t size, struct out *out);
/* What is no request, or hardly one; or one with something odd in it. May be several. `plain_uri`: none of their URIs
 * ends in %XX. */
void web_noise(struct random *random, bool plain_uri, struct out *out);

enum web_found { WEB_NOTHING, WEB_HEAD, WEB_MESSAGE, WEB_CONTROL, WEB_BROKEN };
/* What the broker has sent. All zero at first. */
struct web_reader {
    struct out in;
    bool upgraded;
    bool refused; /* the upgrade was answered by something else than 101 */
    struct out message;
};
/* The next whole thing in what has arrived; a message is in `message` until the next call. */
enum web_found web_next(struct web_reader *reader);
void web_reader_deinit(struct web_reader *reader);

#endif
