/* address.c: addresses of brokers: parsing of URLs, comparison with addresses that brokers name, and the last result
 * of each address.
 *
 * The results are text for people. A call that no broker answered fails with a message that has all of them. */
#include "client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t addresses_find(const struct addresses *addresses, const char *url) {
    struct place place;
    size_t at = 0;
    if (place_parse(url, strnlen(url, PLACE_URL_MAX), &place) != 0) return addresses->count;
    while (at < addresses->count && strcmp(addresses->items[at].place.url, place.url) != 0) at++;
    return at;
}

int addresses_parse(struct addresses *addresses, const char *urls) {
    const char *environment = urls == NULL ? secure_getenv("TARRY_BROKER") : NULL;
    const char *at = urls != NULL ? urls : environment != NULL && environment[0] != 0 ? environment : DEFAULT_URL;
    for (;;) {
        size_t size = strcspn(at, ",");
        const char *end = at + size;
        while (size > 0 && *at == ' ') at++, size--;
        while (size > 0 && at[size - 1] == ' ') size--;
        if (addresses->count == ADDRESSES_MAX) return TARRY_E_ADDRESS;
        struct address *address = &addresses->items[addresses->count];
        if (place_parse(at, size, &address->place) != 0) return TARRY_E_ADDRESS;
        address->said[0] = 0;
        if (addresses_find(addresses, address->place.url) == addresses->count) addresses->count++; /* no duplicates */
        if (*end == 0) return TARRY_OK;
        at = end + 1;
    }
}

void address_say(struct address *address, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(address->said, sizeof(address->said), format, list);
    va_end(list);
}

void addresses_tell(const struct addresses *addresses, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < addresses->count && used < size; i++) {
        const struct address *address = &addresses->items[i];
        const char *said = address->said[0] != 0 ? address->said : "not tried yet";
        int added = snprintf(out + used, size - used, "%s%s: %s", i > 0 ? "; " : "", address->place.url, said);
        used += added > 0 ? (size_t)added : 0;
    }
}
