/* page.h: the web page at `/`: one HTML text with its style and script, which make_page.py builds from this folder's
 * files. The page contains no broker data: it requests what it shows, with the token that its user enters. */
#ifndef TARRY_PAGE_PAGE_H
#define TARRY_PAGE_PAGE_H

#include <stddef.h>

#define PAGE_TYPE "text/html; charset=utf-8"

extern const unsigned char page_html[]; /* the page's HTML in UTF-8: `page_html_size` bytes */
extern const size_t page_html_size;

#endif
