if (parent !== window) {
  for (const button of document.querySelectorAll("button")) {
    button.hidden = false;
    button.addEventListener("click", () => send({type: "input:prompt:submit", text: button.value}));
  }
}
