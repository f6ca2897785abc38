/* bean_words.h: what beanstalkd answers, in its flat YAML, read without believing it. Pure functions. */
#ifndef TARRY_TOOL_IMPORT_BEAN_WORDS_H
#define TARRY_TOOL_IMPORT_BEAN_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BEAN_TUBE_SIZE 201u /* a tube's name and its terminator */
#define BEAN_ID_SIZE 33u    /* of the server's process */

enum bean_state { BEAN_READY, BEAN_DELAYED, BEAN_BURIED, BEAN_RESERVED };

/* Of stats-job. */
struct bean_job {
    uint64_t id;
    char tube[BEAN_TUBE_SIZE];
    enum bean_state state;
    uint32_t pri;
    uint32_t ttr_s;
    uint32_t delay_s;
    uint64_t age_s;
    uint64_t left_s; /* of its delay, rounded down */
};

/* "key: value": the value, without quotes. False: there is none of that name. */
bool bean_value(const char *yaml, size_t size, const char *key, const char **out, size_t *out_size);
bool bean_number(const char *yaml, size_t size, const char *key, uint64_t max, uint64_t *out);
/* Copies it; false as well if it does not fit, or contains anything but what names of tubes may. */
bool bean_name(const char *yaml, size_t size, const char *key, char *out, size_t out_size);
bool bean_job_parse(const char *yaml, size_t size, struct bean_job *out);
/* "- item": the next one from *at on; *at moves behind it. 1; 0: no more; -1: one that names no tube. */
int bean_item(const char **at, const char *end, char out[BEAN_TUBE_SIZE]);
/* Whether a tube may have this name. */
bool bean_is_tube(const char *name);
/* A decimal number and nothing else. */
bool bean_decimal(const char *text, size_t size, uint64_t max, uint64_t *out);

#endif
