// The page that audits in the browser: loads Pyodide when asked to, unpacks the package, and shows what audit_here.py returns.
const PYODIDE = "https://cdn.jsdelivr.net/pyodide/v0.28.3/full/";
const PACKAGES = ["numpy", "scipy", "jinja2"];

const part = (name) => document.getElementById(name);
const say = (text) => (part("state").textContent = text);
let python; // once for all audits

function script(address) {
  return new Promise((done, fail) => {
    const tag = document.createElement("script");
    tag.src = address;
    tag.onload = done;
    tag.onerror = () => fail(new Error(`${address} cannot be loaded; is there a network?`));
    document.head.appendChild(tag);
  });
}

async function start() {
  const address = new URLSearchParams(location.search).get("pyodide") || PYODIDE;
  say("Loading Python …");
  if (!window.loadPyodide) await script(new URL("pyodide.js", new URL(address, location.href)).href);
  const found = await window.loadPyodide({ indexURL: address });
  say("Loading NumPy, SciPy and Jinja …");
  await found.loadPackage(PACKAGES);
  for (const name of PACKAGES) {
    try {
      found.pyimport(name);
    } catch (error) {
      throw new Error(`${name} cannot be loaded from ${address}`);
    }
  }
  say("Loading equitangents …");
  const packed = Uint8Array.from(atob(window.EQUITANGENTS), (letter) => letter.charCodeAt(0));
  found.unpackArchive(packed, "zip", { extractDir: "/home/pyodide" });
  return found.pyimport("audit_here");
}

async function audit() {
  part("run").disabled = true;
  try {
    python = python || (await start());
    say("Auditing …");
    await new Promise((done) => setTimeout(done, 50)); // so that the words are seen
    const found = python.audited(part("source").value, part("group").value.trim()).toJs({ dict_converter: Object.fromEntries });
    part("answer").textContent = (found.printed || "") + (found.error || found.sentence);
    part("answer").hidden = false;
    part("report").hidden = !found.html;
    if (found.html) part("report").srcdoc = found.html;
    say(found.error ? "Not audited." : "");
  } catch (error) {
    say(`It does not work: ${error.message}`);
  } finally {
    part("run").disabled = false;
  }
}

part("run").addEventListener("click", audit);
