/* check.c: see check.h. These checks run once per operation of each request, so they allocate no memory and read a
 * packed Content in place. check_op.c checks whole operations. */
#include "check.h"

#include <assert.h>
#include <string.h>

#include "tarry_limits.h"

/* The error sentences of this file contain the following limits as text. */
_Static_assert(QUEUE_NAME_SIZE_MAX == 128 && KEY_SIZE_MAX == 255, "sentences");
_Static_assert(ATTRIBUTES_MAX == 64 && ATTRIBUTE_NAME_SIZE_MAX == 128 && ATTRIBUTE_VALUE_SIZE_MAX == 4096, "sentences");
_Static_assert(CONTENT_OVERHEAD_MAX == 65536 && PROPERTIES_SIZE_MAX == 65536 && PRIORITY_COUNT == 10, "sentences");
_Static_assert(DUE_AHEAD_MAX_MS == 3653ull * 86400000, "sentences");

const char check_name_long[] = "queue name is longer than 128 bytes";
const char check_key_long[] = "key is longer than 255 bytes";

/* ---- text */

/* Returns the length of the UTF-8 sequence at `at` and its code point in *out; 0: malformed. Implements table 3-7 of
 * the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF. */
static size_t utf8_sequence(const uint8_t *at, size_t left, uint32_t *out) {
    uint8_t lead = at[0];
    size_t size;
    uint32_t point, least;
    if (lead < 0x80) {
        *out = lead;
        return 1;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        size = 2, point = lead & 0x1f, least = 0x80;
    } else if ((lead & 0xf0) == 0xe0) {
        size = 3, point = lead & 0x0f, least = 0x800;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        size = 4, point = lead & 0x07, least = 0x10000;
    } else {
        return 0;
    }
    if (size > left) return 0;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        point = point << 6 | (at[i] & 0x3f);
    }
    if (point < least || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return 0;
    *out = point;
    return size;
}

enum text_kind check_text(const void *text, size_t size) {
    const uint8_t *at = text;
    enum text_kind kind = TEXT_PLAIN;
    for (size_t i = 0; i < size;) {
        if (at[i] >= 0x20 && at[i] < 0x7f) {
            i++;
            continue;
        }
        uint32_t point;
        size_t step = utf8_sequence(at + i, size - i, &point);
        if (step == 0) return TEXT_BROKEN;
        if (point == 0) {
            kind = TEXT_NUL;
        } else if ((point < 0x20 || (point >= 0x7f && point < 0xa0)) && kind == TEXT_PLAIN) {
            kind = TEXT_CONTROL;
        }
        i += step;
    }
    return kind;
}

bool is_utf8(const void *text, size_t size) {
    return check_text(text, size) != TEXT_BROKEN;
}

const char *check_queue_name(const char *name) {
    size_t size = name != NULL ? strnlen(name, QUEUE_NAME_SIZE_MAX + 1) : 0;
    if (size == 0) return "queue name is empty";
    if (size > QUEUE_NAME_SIZE_MAX) return check_name_long;
    switch (check_text(name, size)) {
    case TEXT_BROKEN:
        return "queue name is not UTF-8";
    case TEXT_NUL:
    case TEXT_CONTROL:
        return "queue name contains a control character";
    case TEXT_PLAIN:
        break;
    }
    if (name[0] == ' ' || name[size - 1] == ' ') return "queue name begins or ends with a space";
    return NULL;
}

bool queue_is_reserved(const char *name) {
    return strncmp(name, QUEUE_RESERVED_PREFIX, sizeof(QUEUE_RESERVED_PREFIX) - 1) == 0;
}

bool name_is_dots(const void *name, size_t size) {
    return (size == 1 || size == 2) && memcmp(name, "..", size) == 0;
}

const char *check_key(const void *key, size_t size) {
    if (size > KEY_SIZE_MAX) return check_key_long;
    switch (check_text(key, size)) {
    case TEXT_BROKEN:
        return "key is not UTF-8";
    case TEXT_NUL:
    case TEXT_CONTROL:
        return "key contains a control character";
    case TEXT_PLAIN:
        break;
    }
    return NULL;
}

/* ---- content: walks over the protobuf wire format */

struct span {
    const uint8_t *at;
    size_t size;
};

/* Reads a varint of at most 32 bits from the start of `in`. False: it is cut off or too large. */
static bool take_varint(struct span *in, uint32_t *out) {
    uint64_t value = 0;
    for (unsigned i = 0; i < 5 && i < in->size; i++) {
        value |= (uint64_t)(in->at[i] & 0x7f) << (7 * i);
        if (in->at[i] < 0x80) {
            if (value > UINT32_MAX) return false;
            *out = (uint32_t)value;
            in->at += i + 1;
            in->size -= i + 1;
            return true;
        }
    }
    return false;
}

/* Reads a length-delimited field with a number from 1 to `field_max`. Content and Attribute consist of such fields
 * only.
 */
static const char *take_field(struct span *in, uint32_t field_max, uint32_t *out_field, struct span *out) {
    static const char broken[] = "content is malformed or cut off";
    uint32_t tag, size;
    if (!take_varint(in, &tag)) return broken;
    if (tag >> 3 == 0 || tag >> 3 > field_max) return "content has a field that is unknown to this broker";
    if ((tag & 7) != 2 || !take_varint(in, &size) || size > in->size) return broken;
    *out_field = tag >> 3;
    *out = (struct span){in->at, size};
    in->at += size;
    in->size -= size;
    return NULL;
}

static const char *check_attribute(struct span in, struct span *out_name, bool *out_too_large) {
    struct span parts[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}}; /* the parts of the Content, indexed by field number */
    while (in.size > 0) {
        uint32_t field;
        struct span part;
        const char *problem = take_field(&in, 2, &field, &part);
        if (problem != NULL) return problem;
        if (parts[field].at != NULL) return "an attribute contains a field twice";
        parts[field] = part;
    }
    struct span name = parts[1], value = parts[2];
    if (name.size == 0) return "an attribute has no name";
    *out_too_large = true;
    if (name.size > ATTRIBUTE_NAME_SIZE_MAX) return "an attribute name is longer than 128 bytes";
    if (value.size > ATTRIBUTE_VALUE_SIZE_MAX) return "an attribute value is longer than 4096 bytes";
    *out_too_large = false;
    switch (check_text(name.at, name.size)) {
    case TEXT_BROKEN:
        return "an attribute name is not UTF-8";
    case TEXT_NUL:
    case TEXT_CONTROL:
        return "an attribute name contains a control character";
    case TEXT_PLAIN:
        break;
    }
    switch (check_text(value.at, value.size)) {
    case TEXT_BROKEN:
        return "an attribute value is not UTF-8";
    case TEXT_NUL: /* a NUL is refused, because many clients handle values as C strings */
        return "an attribute value contains a NUL";
    case TEXT_CONTROL:
    case TEXT_PLAIN:
        break;
    }
    *out_name = name;
    return NULL;
}

static bool is_among(const struct span *names, size_t count, struct span name) {
    for (size_t i = 0; i < count; i++)
        if (names[i].size == name.size && memcmp(names[i].at, name.at, name.size) == 0) return true;
    return false;
}

/* Field numbers of Content. */
enum { FIELD_ATTRIBUTE = 1, FIELD_PAYLOAD, FIELD_PROPERTIES };

static const char *check_sizes(size_t size, size_t payload, size_t properties, uint32_t payload_max) {
    if (payload > payload_max) return "payload is larger than this broker's payload limit";
    if (properties > PROPERTIES_SIZE_MAX) return "the properties are larger than 65536 bytes (PROPERTIES_SIZE_MAX)";
    bool is_large = size - payload - properties > CONTENT_OVERHEAD_MAX;
    return is_large ? "the attributes are together larger than 65536 bytes" : NULL;
}

const char *check_content(const void *content, size_t size, uint32_t payload_max, bool *out_too_large) {
    struct span in = {content, size};
    struct span names[ATTRIBUTES_MAX];
    size_t count = 0;
    struct span parts[FIELD_PROPERTIES + 1] = {{NULL, 0}}; /* the content's payload and properties, by field number */
    *out_too_large = true;
    /* Checks the size before it reads the Content, to limit the time of the reading. */
    if (size > (size_t)payload_max + CONTENT_OVERHEAD_MAX + PROPERTIES_SIZE_MAX)
        return "content is larger than this broker's payload limit";
    *out_too_large = false;
    while (in.size > 0) {
        uint32_t field;
        struct span part;
        const char *problem = take_field(&in, FIELD_PROPERTIES, &field, &part);
        if (problem != NULL) return problem;
        if (field != FIELD_ATTRIBUTE) {
            if (parts[field].at != NULL)
                return field == FIELD_PAYLOAD ? "content has two payloads" : "content has properties twice";
            parts[field] = part;
            continue;
        }
        if (count == ATTRIBUTES_MAX) {
            *out_too_large = true;
            return "more than 64 attributes";
        }
        problem = check_attribute(part, &names[count], out_too_large);
        if (problem != NULL) return problem;
        if (is_among(names, count, names[count])) return "two attributes have the same name";
        count++;
    }
    const char *problem = check_sizes(size, parts[FIELD_PAYLOAD].size, parts[FIELD_PROPERTIES].size, payload_max);
    *out_too_large = problem != NULL;
    return problem;
}
