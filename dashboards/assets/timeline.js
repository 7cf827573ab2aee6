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

  const save = (name, blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  Object.assign(window.hvdprofTimeline, {element, button, save});
})();
