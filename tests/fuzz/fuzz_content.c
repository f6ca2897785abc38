/* fuzz_content.c: compares check.h's parser of a packed Content, which unpacks nothing, with protobuf-c. If this parser
 * accepts a Content, protobuf-c unpacks it without unknown fields, with the same limits and without doubled names. If
 * protobuf-c cannot unpack it, the parser refuses it. */
#include <assert.h>
#include <string.h>

#include "arena.h"
#include "check.h"
#include "fuzz.h"
#include "tarry_limits.h"

#define PAYLOAD_MAX 4096u

static void accepted_is_right(const Tarry__Content *content) {
    assert(content != NULL && content->base.n_unknown_fields == 0);
    assert(content->payload.len <= PAYLOAD_MAX && content->n_attributes <= ATTRIBUTES_MAX);
    assert(content->properties.len <= PROPERTIES_SIZE_MAX);
    for (size_t i = 0; i < content->n_attributes; i++) {
        const Tarry__Attribute *attribute = content->attributes[i];
        assert(attribute->base.n_unknown_fields == 0);
        size_t name_size = strlen(attribute->name), value_size = strlen(attribute->value);
        assert(name_size > 0 && name_size <= ATTRIBUTE_NAME_SIZE_MAX && is_utf8(attribute->name, name_size));
        assert(value_size <= ATTRIBUTE_VALUE_SIZE_MAX && is_utf8(attribute->value, value_size));
        for (size_t j = 0; j < i; j++) assert(strcmp(content->attributes[j]->name, attribute->name) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct arena arena; /* static, so that its large first block is kept between inputs */
    if (arena.size_max == 0) arena_init(&arena, 16u << 20);
    bool too_large = false;
    const char *problem = check_content(data, size, PAYLOAD_MAX, &too_large);
    assert(problem != NULL || !too_large);
    if (problem == NULL) accepted_is_right(tarry__content__unpack(&arena.pb, size, data));
    arena_reset(&arena);
    return 0;
}
