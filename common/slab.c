/* slab.c: see slab.h.
 *
 * There is a size class for every multiple of 16 bytes. Invariants:
 *   S-1  A page has exactly one of these states: never used (its number is above `fresh`); on the stack of empty
 *        pages; in a class's list of pages with free objects; or full, and in no list.
 *   S-2  `room` of a class is the number of free objects on the pages in the class's list.
 *   S-3  The first `carved` objects of a page were allocated at least once; the free ones among them are chained.
 * Page numbers start at 1, so 0 ends a list. Under AddressSanitizer free objects are poisoned, so a use after free is
 * found as with malloc. */
#include "slab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "huge_pages.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(at, size) ASAN_POISON_MEMORY_REGION(at, size)
#define UNPOISON(at, size) ASAN_UNPOISON_MEMORY_REGION(at, size)
#else
#define POISON(at, size) ((void)(at), (void)(size))
#define UNPOISON(at, size) ((void)(at), (void)(size))
#endif

struct slab_object {
    struct slab_object *next;
};

struct slab_page {
    struct slab_object *free;
    uint32_t next; /* number of the next page in the same list; 0: none */
    uint32_t prev;
    uint16_t used;   /* number of the page's objects in use */
    uint16_t carved; /* number of objects allocated at least once since the page got its class */
    uint16_t class;  /* size class of the page; valid while used > 0 */
};

struct slab_class {
    uint32_t pages; /* number of the first page with free objects; 0: none */
    uint64_t room;
};

struct slab {
    uint8_t *region;
    size_t size;
    uint32_t page_count;
    uint32_t fresh;       /* pages 1 to `fresh` have been used; all higher ones have not */
    uint32_t empty;       /* stack of pages that were used and are empty now */
    uint32_t empty_count; /* number of pages on the stack of empty pages */
    uint64_t allocated;   /* number of objects ever allocated */
    struct slab_class classes[SLAB_CLASSES];
    struct slab_page pages[]; /* pages by number; entry 0 is unused */
};

struct slab *slab_new(size_t size) {
    size_t page_count = size / SLAB_PAGE_SIZE;
    if (page_count == 0 || page_count >= UINT32_MAX) return NULL;
    struct slab *slab = calloc(1, sizeof(*slab) + (page_count + 1) * sizeof(slab->pages[0]));
    if (slab == NULL) return NULL;
    slab->size = page_count * SLAB_PAGE_SIZE;
    slab->page_count = (uint32_t)page_count;
    // cppcheck-suppress invalidFunctionArg ; -1 is right with MAP_ANONYMOUS
    void *region = mmap(NULL, slab->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) {
        free(slab);
        return NULL;
    }
    slab->region = region;
    huge_pages_wanted(region, slab->size);
    POISON(slab->region, slab->size);
    return slab;
}

void slab_free_all(struct slab *slab) {
    if (slab == NULL) return;
    UNPOISON(slab->region, slab->size);
    int failed = munmap(slab->region, slab->size);
    assert(failed == 0);
    free(slab);
}

static size_t class_of(size_t size) {
    assert(size <= SLAB_OBJECT_SIZE_MAX);
    return size == 0 ? 0 : (size - 1) / SLAB_ALIGN;
}

static size_t class_size(size_t class) {
    return (class + 1) * SLAB_ALIGN;
}

static uint32_t class_capacity(size_t class) {
    return (uint32_t)(SLAB_PAGE_SIZE / class_size(class));
}

static uint8_t *page_start(const struct slab *slab, uint32_t number) {
    assert(number >= 1 && number <= slab->page_count);
    return slab->region + (size_t)(number - 1) * SLAB_PAGE_SIZE;
}

uint32_t slab_pages_free(const struct slab *slab) {
    return slab->page_count - slab->fresh + slab->empty_count;
}

static void page_link(struct slab *slab, struct slab_class *class, uint32_t number) {
    struct slab_page *page = &slab->pages[number];
    page->prev = 0;
    page->next = class->pages;
    if (class->pages != 0) slab->pages[class->pages].prev = number;
    class->pages = number;
}

static void page_unlink(struct slab *slab, struct slab_class *class, uint32_t number) {
    struct slab_page *page = &slab->pages[number];
    if (page->prev != 0) {
        slab->pages[page->prev].next = page->next;
    } else {
        assert(class->pages == number);
        class->pages = page->next;
    }
    if (page->next != 0) slab->pages[page->next].prev = page->prev;
    page->next = page->prev = 0;
}

/* Assigns a free page to a class and returns its number; 0: no free page. Takes empty pages before never used ones,
 * because empty pages are already in memory. */
static uint32_t page_take(struct slab *slab, size_t class) {
    uint32_t number = slab->empty;
    if (number != 0) {
        slab->empty = slab->pages[number].next;
        slab->empty_count--;
    } else if (slab->fresh < slab->page_count) {
        number = ++slab->fresh;
    } else {
        return 0;
    }
    slab->pages[number] = (struct slab_page){.class = (uint16_t) class};
    page_link(slab, &slab->classes[class], number);
    slab->classes[class].room += class_capacity(class);
    return number;
}

void *slab_alloc(struct slab *slab, size_t size) {
    size_t class = class_of(size);
    uint32_t number = slab->classes[class].pages;
    if (number == 0) number = page_take(slab, class);
    if (number == 0) return NULL;
    struct slab_page *page = &slab->pages[number];
    struct slab_object *object = page->free;
    if (object != NULL) {
        UNPOISON(object, class_size(class));
        page->free = object->next;
    } else {
        assert(page->carved < class_capacity(class));
        object = (struct slab_object *)(page_start(slab, number) + page->carved * class_size(class));
        page->carved++;
        UNPOISON(object, class_size(class));
    }
    page->used++;
    slab->allocated++;
    slab->classes[class].room--;
    if (page->used == class_capacity(class)) page_unlink(slab, &slab->classes[class], number);
    /* Prefetch what the next call reads: the next free object, and, if this page is full, the state of the next page.
     * Both are probably not in the CPU cache. */
    const struct slab_page *next = &slab->pages[slab->classes[class].pages];
    __builtin_prefetch(next->free);
    __builtin_prefetch(&slab->pages[next->next]);
    return object;
}

void slab_release(struct slab *slab, void *object, size_t size) {
    if (object == NULL) return;
    size_t class = class_of(size);
    size_t offset = (size_t)((uint8_t *)object - slab->region);
    assert(offset < slab->size);
    uint32_t number = (uint32_t)(offset / SLAB_PAGE_SIZE) + 1;
    struct slab_page *page = &slab->pages[number];
    /* Assert here, because a wrong size or a double free would corrupt the lists unnoticed. */
    assert(page->used > 0 && page->class == class);
    assert(offset % SLAB_PAGE_SIZE % class_size(class) == 0);
    if (page->used == class_capacity(class)) page_link(slab, &slab->classes[class], number);
    page->used--;
    slab->classes[class].room++;
    if (page->used > 0) {
        struct slab_object *freed = object;
        freed->next = page->free;
        page->free = freed;
        POISON(object, class_size(class));
        return;
    }
    POISON(page_start(slab, number), SLAB_PAGE_SIZE);
    page_unlink(slab, &slab->classes[class], number);
    slab->classes[class].room -= class_capacity(class);
    page->next = slab->empty;
    slab->empty = number;
    slab->empty_count++;
}

void slab_need_add(struct slab_need *need, size_t size, uint32_t count) {
    need->counts[class_of(size)] += count;
}

uint32_t slab_need_pages(const struct slab *slab, const struct slab_need *need) {
    uint32_t pages = 0;
    for (size_t class = 0; class < SLAB_CLASSES; class ++) {
        uint64_t room = slab ? slab->classes[class].room : 0;
        if (need->counts[class] <= room) continue;
        uint64_t beyond = need->counts[class] - room;
        pages += (uint32_t)((beyond + class_capacity(class) - 1) / class_capacity(class));
    }
    return pages;
}

bool slab_has_room(const struct slab *slab, size_t size) {
    return slab->classes[class_of(size)].room > 0;
}

uint64_t slab_allocated(const struct slab *slab) {
    return slab->allocated;
}

size_t slab_used(const struct slab *slab) {
    return (size_t)(slab->page_count - slab_pages_free(slab)) * SLAB_PAGE_SIZE;
}

size_t slab_capacity(const struct slab *slab) {
    return slab->size;
}
