/* page_link.js: the page's address names what it shows (#queue=NAME&state=dead, #task=ID), so that it can be sent to a colleague, and the
 * browser's Back button works. */
const link = () => new URLSearchParams(location.hash.slice(1));
/* Stores what is shown in the address; empty members are left out. */
const setLink = (members) => {
  const now = new URLSearchParams(Object.entries(members).filter(([, value]) => value)).toString();
  if (now !== link().toString()) history.pushState(null, "", now ? `#${now}` : location.pathname);
};
/* Shows what the address names. */
const followLink = async () => {
  const wanted = link();
  if (wanted.has("queue")) {
    $("tasks-prefix").value = wanted.get("prefix") || "";
    $("tasks-from").value = wanted.get("from") || "";
    $("tasks-to").value = wanted.get("to") || "";
    openQueue(wanted.get("queue"), { state: wanted.get("state") || "" });
  } else if (wanted.has("task")) {
    await search(wanted.get("task"), "");
    $("task").focus();
  }
};
window.addEventListener("popstate", followLink);
