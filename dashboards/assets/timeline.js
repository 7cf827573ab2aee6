// Elements and files, for the other parts of the timeline, which load after this one.
window.hvdprofTimeline = window.hvdprofTimeline || {};
(() => {
  // An element with properties and children; texts are never markup.
  const element = (tag, properties = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.startsWith("on")) { made.addEventListener(name.slice(2), value); }
      else if (value !== null && value !== undefined && value !== false) {
        made.setAttribute(name, value === true ? "" : value);
      }
    }
    made.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return made;
  };

  const button = (text, name, onclick, more = {}) =>
    element("button", {type: "button", "aria-label": name, title: name, onclick, ...more}, text);

  // Replace the children of a part; a button in it that has the focus keeps it.
  const refill = (part, children) => {
    const buttons = () => [...part.querySelectorAll("button")];
    const before = buttons();
    const at = before.indexOf(document.activeElement);
    part.replaceChildren(...children);
    if (at < 0) { return; }
    const name = before[at].getAttribute("aria-label") || before[at].textContent;
    const usable = buttons().filter((one) => !one.disabled);
    const same = usable.find((one) => (one.getAttribute("aria-label") || one.textContent) === name);
    (same || usable[Math.min(at, usable.length - 1)])?.focus({preventScroll: true});
  };

  const save = (name, blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  Object.assign(window.hvdprofTimeline, {element, button, refill, save});
})();
