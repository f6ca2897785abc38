/* page.h: the page for people at `/`: one HTML text with its own style and script, made from the files of this folder
 * by make_page.py when the broker is built. It holds nothing of the broker's: what it shows it asks for, with the token
 * that a person gives it. */
#ifndef TARRY_PAGE_PAGE_H
#define TARRY_PAGE_PAGE_H

#include <stddef.h>

#define PAGE_TYPE "text/html; charset=utf-8"

extern const unsigned char page_html[]; /* UTF-8, `page_html_size` bytes */
extern const size_t page_html_size;

#endif
