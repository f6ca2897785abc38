/* bean_words.c: see bean_words.h. */
#include "bean_words.h"

#include <string.h>

#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+/;.$_()"

bool bean_decimal(const char *text, size_t size, uint64_t max, uint64_t *out) {
    uint64_t number = 0;
    if (size == 0) return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        const uint64_t digit = (uint64_t)(text[i] - '0');
        if (number > (max - digit) / 10) return false;
        number = number * 10 + digit;
    }
    *out = number;
    return true;
}

bool bean_value(const char *yaml, size_t size, const char *key, const char **out, size_t *out_size) {
    const size_t key_size = strlen(key);
    for (const char *line = yaml, *end = yaml + size; line < end;) {
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        const size_t length = (size_t)((feed != NULL ? feed : end) - line);
        if (length > key_size + 2 && memcmp(line, key, key_size) == 0 && memcmp(line + key_size, ": ", 2) == 0) {
            const char *value = line + key_size + 2;
            size_t value_size = length - key_size - 2;
            if (value_size >= 2 && value[0] == '"' && value[value_size - 1] == '"') {
                value++;
                value_size -= 2;
            }
            *out = value;
            *out_size = value_size;
            return true;
        }
        line += length + 1;
    }
    return false;
}

bool bean_number(const char *yaml, size_t size, const char *key, uint64_t max, uint64_t *out) {
    const char *value;
    size_t value_size;
    return bean_value(yaml, size, key, &value, &value_size) && bean_decimal(value, value_size, max, out);
}

/* Copies the name of a tube, or a server's id. The same characters are allowed in both. */
static bool copy_name(const char *name, size_t size, char *out, size_t out_size) {
    if (size == 0 || size >= out_size) return false;
    for (size_t i = 0; i < size; i++)
        if (name[i] == 0 || strchr(NAME_BYTES, name[i]) == NULL) return false;
    memcpy(out, name, size);
    out[size] = 0;
    return true;
}

bool bean_name(const char *yaml, size_t size, const char *key, char *out, size_t out_size) {
    const char *value;
    size_t value_size;
    return bean_value(yaml, size, key, &value, &value_size) && copy_name(value, value_size, out, out_size);
}

bool bean_is_tube(const char *name) {
    char copy[BEAN_TUBE_SIZE];
    return name[0] != '-' && copy_name(name, strlen(name), copy, sizeof copy);
}

bool bean_job_parse(const char *yaml, size_t size, struct bean_job *out) {
    static const char *const states[] = {"ready", "delayed", "buried", "reserved"}; /* enum bean_state */
    uint64_t pri, ttr_s, delay_s;
    const char *state;
    size_t state_size, i = 0;
    if (!bean_name(yaml, size, "tube", out->tube, sizeof out->tube)) return false;
    if (!bean_number(yaml, size, "id", UINT64_MAX, &out->id) || !bean_number(yaml, size, "pri", UINT32_MAX, &pri) ||
        !bean_number(yaml, size, "ttr", UINT32_MAX, &ttr_s) ||
        !bean_number(yaml, size, "delay", UINT32_MAX, &delay_s) ||
        !bean_number(yaml, size, "age", INT64_MAX, &out->age_s))
        return false;
    if (!bean_value(yaml, size, "state", &state, &state_size)) return false;
    while (i < 4 && (strlen(states[i]) != state_size || memcmp(states[i], state, state_size) != 0)) i++;
    if (i == 4) return false;
    out->state = (enum bean_state)i;
    out->pri = (uint32_t)pri;
    out->ttr_s = ttr_s > 0 ? (uint32_t)ttr_s : 1;
    out->delay_s = (uint32_t)delay_s;
    /* beanstalkd may report a negative remaining delay when the delay has just ended; it counts as 0. */
    out->left_s = 0;
    (void)bean_number(yaml, size, "time-left", INT64_MAX / 1000 - 1000, &out->left_s);
    return true;
}

int bean_item(const char **at, const char *end, char out[BEAN_TUBE_SIZE]) {
    while (*at < end) {
        const char *line = *at, *feed = memchr(line, '\n', (size_t)(end - line));
        size_t size = (size_t)((feed != NULL ? feed : end) - line);
        *at = feed != NULL ? feed + 1 : end;
        if (size <= 2 || memcmp(line, "- ", 2) != 0) continue;
        line += 2;
        size -= 2;
        const bool is_quoted = size >= 2 && line[0] == '"' && line[size - 1] == '"';
        return copy_name(line + is_quoted, size - (is_quoted ? 2 : 0), out, BEAN_TUBE_SIZE) ? 1 : -1;
    }
    return 0;
}
