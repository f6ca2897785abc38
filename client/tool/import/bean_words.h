/* bean_words.h: parses replies of beanstalkd in its flat YAML, which are not trusted. Pure functions. */
#ifndef TARRY_TOOL_IMPORT_BEAN_WORDS_H
#define TARRY_TOOL_IMPORT_BEAN_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BEAN_TUBE_SIZE 201u /* size in bytes of a tube's name with its final 0 */
#define BEAN_ID_SIZE 33u    /* size in bytes of the id of the server's process, with its final 0 */

enum bean_state { BEAN_READY, BEAN_DELAYED, BEAN_BURIED, BEAN_RESERVED };

/* A job as the reply to stats-job describes it. */
struct bean_job {
    uint64_t id;
    char tube[BEAN_TUBE_SIZE];
    enum bean_state state;
    uint32_t pri;
    uint32_t ttr_s;
    uint32_t delay_s;
    uint64_t age_s;
    uint64_t left_s; /* remaining delay, rounded down */
};

/* Finds "key: value" and returns the value without quotes. False: no such key. */
bool bean_value(const char *yaml, size_t size, const char *key, const char **out, size_t *out_size);
bool bean_number(const char *yaml, size_t size, const char *key, uint64_t max, uint64_t *out);
/* Copies the value. False also if it does not fit, or has characters that a tube name may not have. */
bool bean_name(const char *yaml, size_t size, const char *key, char *out, size_t out_size);
bool bean_job_parse(const char *yaml, size_t size, struct bean_job *out);
/* Reads the next "- item" at *at and moves *at behind it. Returns 1 for an item; 0: no more items; -1: the item is not
 * a tube name. */
int bean_item(const char **at, const char *end, char out[BEAN_TUBE_SIZE]);
/* Returns whether `name` is a valid tube name. */
bool bean_is_tube(const char *name);
/* Parses a decimal number. False if the text has any other character. */
bool bean_decimal(const char *text, size_t size, uint64_t max, uint64_t *out);

#endif
