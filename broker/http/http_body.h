/* http_body.h: a body as it comes: unpacked (gzip, zstd), bounded and counted from its first byte. */
#ifndef TARRY_HTTP_HTTP_BODY_H
#define TARRY_HTTP_HTTP_BODY_H

#include "http_exchange.h"

/* 0, or the status of a refusal. */
unsigned body_begin(struct http_exchange *exchange);
unsigned body_take(struct http_exchange *exchange, const char *bytes, size_t size);
/* Why a body is refused with a status of body_take. */
const char *body_sentence(unsigned status);
/* It is whole. False: what was packed is not. */
bool body_finish(struct http_exchange *exchange);
/* What has unpacked it is given back: it is whole. */
void body_unpacked(struct http_exchange *exchange);
/* It is not needed any more: a request may be worked at for long, and would hold it as long. */
void body_deinit(struct http_exchange *exchange);

#endif
