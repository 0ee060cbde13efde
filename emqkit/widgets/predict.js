// A question in the browser: answers to choose from and a button to commit. Which one is right only the kernel knows; it
// says so by a message, after an answer was committed to.
//
// model: question, choices. Sent: {choose: n}, {ask: true}. Received: {chosen, right, says}, numbers from 1.

const WAIT_MS = 5000;
const NO_KERNEL = "Nobody answers: no kernel runs here that knows this question. Open the notebook and run this cell, and the cells above it, then commit again.";
const WAITING = "The kernel has not answered yet; it is busy, or gone. If no answer comes, run this cell again.";

const told = new WeakMap(); // model → the verdict, for a view that is drawn later

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

let groups = 0;

function render({ model, el }) {
  const root = make("section", "emqkit-predict");
  root.setAttribute("aria-label", "Predict, then see");
  root.dataset.lmSuppressShortcuts = "true";
  // Jupyter looks for its shortcuts at the focused element first
  root.addEventListener("focusin", (event) => {
    event.target.dataset.lmSuppressShortcuts = "true";
  });

  const field = make("fieldset");
  const group = `emqkit-predict-${(groups += 1)}-${Math.random().toString(36).slice(2)}`;
  const list = make("div", "emqkit-answers");
  field.append(make("legend", "", model.get("question")), list);
  const choices = model.get("choices").map((text, at) => {
    const label = make("label", "emqkit-answer");
    const radio = make("input");
    radio.type = "radio";
    radio.name = group;
    radio.value = String(at + 1);
    const said = make("span", "emqkit-verdict");
    label.append(radio, make("span", "", text), said);
    list.append(label);
    return { label, radio, said };
  });
  const commit = make("button", "emqkit-commit", "Commit to it");
  commit.type = "button";
  const status = make("p", "emqkit-told");
  status.setAttribute("role", "status");
  status.setAttribute("aria-live", "polite");
  const foot = make("div", "emqkit-foot");
  foot.append(commit, status);
  root.append(field, foot);
  el.append(root);

  let timer = null;
  const say = (text) => {
    status.textContent = text;
  };

  const send = (content) => {
    try {
      Promise.resolve(model.send(content)).catch(() => say(NO_KERNEL));
      return true;
    } catch {
      return false; // an exported page, or a notebook whose kernel is gone
    }
  };

  const chosen = () => choices.findIndex(({ radio }) => radio.checked) + 1;

  const act = () => {
    if (told.has(model)) return;
    const number = chosen();
    if (!number) {
      say("Choose an answer first.");
      choices[0]?.radio.focus();
      return;
    }
    clearTimeout(timer);
    if (!send({ choose: number })) {
      say(NO_KERNEL);
      return;
    }
    say("Committed.");
    timer = setTimeout(() => say(WAITING), WAIT_MS);
  };
  commit.addEventListener("click", act);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      act();
    } else if (choices[Number(event.key) - 1] && !told.has(model)) {
      choices[Number(event.key) - 1].radio.click();
      choices[Number(event.key) - 1].radio.focus();
    }
  });

  const paint = () => {
    const verdict = told.get(model);
    if (!verdict) return;
    clearTimeout(timer);
    choices.forEach(({ label, radio, said }, at) => {
      radio.checked = at + 1 === verdict.chosen;
      radio.disabled = !radio.checked; // the one that was chosen keeps the focus
      const right = at + 1 === verdict.right;
      label.classList.toggle("emqkit-right", right);
      label.classList.toggle("emqkit-wrong", radio.checked && !right);
      said.textContent = right ? (radio.checked ? "your answer, and what happens" : "what happens") : radio.checked ? "your answer" : "";
    });
    commit.setAttribute("aria-disabled", "true");
    root.classList.add("emqkit-committed");
    say(verdict.says);
  };
  const hear = (message) => {
    if (!message || message.right === undefined) return;
    told.set(model, message);
    paint();
  };
  model.on("msg:custom", hear);
  if (told.has(model)) paint();
  else send({ ask: true });

  return () => {
    clearTimeout(timer);
    model.off("msg:custom", hear);
  };
}

export default { render };
