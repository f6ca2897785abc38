/* push_address.c: see push_address.h. Contains the networks that are not globally reachable, from IANA's registries of
 * special-purpose addresses (RFC 6890 and its successors), and networks that clouds use internally. */
#include "push_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#define MAPPED_BITS 96u
#define TEXT_MAX 64u

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

struct special {
    struct push_network network;
    const char *what;
};

#define V4(a, b, c, d, bits, what)                                                                                     \
    { {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}, MAPPED_BITS + (bits)}, what }

static const struct special specials[] = {
    V4(0, 0, 0, 0, 8, "an address of the local network (0.0.0.0/8)"),
    V4(10, 0, 0, 0, 8, "a private address"),
    V4(100, 64, 0, 0, 10, "an address of a provider's own network (100.64.0.0/10)"),
    V4(127, 0, 0, 0, 8, "a loopback address"),
    V4(168, 63, 129, 16, 32, "the address of a cloud provider's internal services"),
    V4(169, 254, 0, 0, 16, "a link-local address, which cloud metadata services use"),
    V4(172, 16, 0, 0, 12, "a private address"),
    V4(192, 0, 0, 0, 24, "an address reserved for protocols (192.0.0.0/24)"),
    V4(192, 0, 2, 0, 24, "an address reserved for documentation"),
    V4(192, 88, 99, 0, 24, "an address reserved for relays (192.88.99.0/24)"),
    V4(192, 168, 0, 0, 16, "a private address"),
    V4(198, 18, 0, 0, 15, "an address reserved for benchmarks (198.18.0.0/15)"),
    V4(198, 51, 100, 0, 24, "an address reserved for documentation"),
    V4(203, 0, 113, 0, 24, "an address reserved for documentation"),
    V4(224, 0, 0, 0, 4, "a multicast address"),
    V4(240, 0, 0, 0, 4, "a reserved address"),
    {{{0}, 128}, "the unspecified address"},
    {{{[15] = 1}, 128}, "a loopback address"},
    {{{0xfc}, 7}, "a private address"},
    {{{0xfe, 0x80}, 10}, "a link-local address"},
    {{{0xff}, 8}, "a multicast address"},
    {{{0x20, 0x01}, 23}, "an address reserved for protocols (2001::/23)"},
    {{{0x20, 0x01, 0x0d, 0xb8}, 32}, "an address reserved for documentation"},
    {{{0x20, 0x02}, 16}, "an address that contains an IPv4 address (6to4, 2002::/16)"},
    {{{0x3f, 0xff}, 20}, "an address reserved for documentation"},
};

/* Global unicast. All other IPv6 addresses are refused. */
static const struct push_network global = {{0x20}, 3};
/* NAT64: the last four bytes are the IPv4 address of the target. */
static const struct push_network translated = {{0, 0x64, 0xff, 0x9b}, 96};

static bool is_in(const uint8_t bytes[16], const struct push_network *network) {
    unsigned whole = network->prefix / 8, rest = network->prefix % 8;
    if (memcmp(bytes, network->bytes, whole) != 0) return false;
    return rest == 0 || ((bytes[whole] ^ network->bytes[whole]) >> (8 - rest)) == 0;
}

static bool is_allowed(const uint8_t bytes[16], const struct push_allowed *allowed) {
    for (size_t i = 0; i < allowed->count; i++)
        if (is_in(bytes, &allowed->networks[i])) return true;
    return false;
}

/* Copies the address. False: neither IPv4 nor IPv6. */
static bool take_address(const struct sockaddr *address, uint8_t out[16]) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        memcpy(out, mapped, sizeof(mapped));
        memcpy(out + sizeof(mapped), &in->sin_addr, 4);
        return true;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
    if (address->sa_family == AF_INET6) memcpy(out, &in6->sin6_addr, 16);
    return address->sa_family == AF_INET6;
}

const char *push_address_problem(const struct sockaddr *address, const struct push_allowed *allowed) {
    uint8_t bytes[16];
    if (!take_address(address, bytes)) return "not an IPv4 or IPv6 address";
    if (is_allowed(bytes, allowed)) return NULL;
    if (is_in(bytes, &translated)) {
        memcpy(bytes, mapped, sizeof(mapped));
        if (is_allowed(bytes, allowed)) return NULL;
    }
    for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++)
        if (is_in(bytes, &specials[i].network)) return specials[i].what;
    bool is_known = is_in(bytes, &global) || memcmp(bytes, mapped, sizeof(mapped)) == 0;
    return is_known ? NULL : "an address that is not globally reachable";
}

/* Parses a number of 1 to 3 digits that is not greater than `most`. Returns false if `text` is not such a number. */
static bool take_prefix(const char *text, size_t size, unsigned most, unsigned *out) {
    *out = 0;
    if (size == 0 || size > 3 || (size > 1 && text[0] == '0')) return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        *out = *out * 10 + (unsigned)(text[i] - '0');
    }
    return *out <= most;
}

bool push_network_parse(const char *text, size_t size, struct push_network *out) {
    char address[TEXT_MAX];
    const char *slash = memchr(text, '/', size);
    size_t address_size = slash != NULL ? (size_t)(slash - text) : size;
    if (address_size == 0 || address_size >= sizeof(address)) return false;
    memcpy(address, text, address_size);
    address[address_size] = '\0';
    *out = (struct push_network){.prefix = 128};
    bool is_v4 = inet_pton(AF_INET, address, out->bytes + sizeof(mapped)) == 1;
    if (is_v4) memcpy(out->bytes, mapped, sizeof(mapped));
    if (!is_v4 && inet_pton(AF_INET6, address, out->bytes) != 1) return false;
    unsigned prefix = 0, least = is_v4 ? MAPPED_BITS : 0;
    if (slash != NULL) {
        if (!take_prefix(slash + 1, size - address_size - 1, 128 - least, &prefix)) return false;
        out->prefix = least + prefix;
    }
    for (unsigned bit = out->prefix; bit < 128; bit++)
        if ((out->bytes[bit / 8] >> (7 - bit % 8) & 1) != 0) return false;
    return true;
}

bool push_allowed_parse(const char *text, struct push_allowed *out) {
    out->count = 0;
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        size_t size = strcspn(text, " ");
        if (out->count == PUSH_ALLOWED_MAX || !push_network_parse(text, size, &out->networks[out->count])) return false;
        out->count++;
        text += size;
    }
    return true;
}
