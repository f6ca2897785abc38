/* push_request.h: the headers of a webhook request: CloudEvents 1.0 in binary mode, and Standard Webhooks. Pure, any
 * thread. */
#ifndef TARRY_PUSH_PUSH_REQUEST_H
#define TARRY_PUSH_PUSH_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "push_job.h"
#include "push_secrets.h"
#include "tarry.pb-c.h"

/* Maximum size of one header: a value of 4,096 bytes, each as %XX, and a name likewise. */
#define PUSH_HEAD_LINE_SIZE (3u * (ATTRIBUTE_VALUE_SIZE_MAX + ATTRIBUTE_NAME_SIZE_MAX) + 64u)

/* Callback that adds a header. False: it failed, and no further header is made. */
typedef bool push_add_head(void *argument, const char *line);

struct push_words {
    const struct push_job *job;
    const Tarry__Content *content;
    const struct push_secret *secret;
    const uint8_t *cluster; /* 8 bytes */
    uint64_t timestamp_s;   /* Unix time in seconds */
};

/* Makes each header in libcurl's form: a line `Name: value` of printable ASCII, or `Name;` if the value is empty.
 * False: `add` failed. */
bool push_heads(const struct push_words *words, push_add_head *add, void *argument);

#endif
