/**
 * Evaluates a module, and all that it imports, in a realm of its own, as Jest does: it has other
 * classes Error, Object and Array than Node's modules, which stay those of the outer realm.
 *
 *   node --experimental-vm-modules realm.mjs FILE
 */
import { readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import {
  createContext,
  runInContext,
  SourceTextModule,
  SyntheticModule
} from "node:vm";

const context = createContext();

/** What JavaScript has is the realm's own. What Node adds is shared, and V8's console, which is mute. */
const own = new Set(
  runInContext("Object.getOwnPropertyNames(globalThis)", context)
);
own.delete("console");
for (const name of Object.getOwnPropertyNames(globalThis))
  if (!own.has(name))
    Object.defineProperty(context, name, { get: () => globalThis[name] });

/** Each module by its URL: one that is imported twice is evaluated once. */
const modules = new Map();

async function moduleAt(specifier, referrer) {
  const url = isBuiltin(specifier)
    ? specifier
    : new URL(specifier, referrer).href;
  const known = modules.get(url);
  if (known) return known;
  const made = isBuiltin(url)
    ? sharedModule(await import(url))
    : new SourceTextModule(readFileSync(fileURLToPath(url), "utf8"), {
        identifier: url,
        context
      });
  // Another importer may have made it meanwhile.
  if (!modules.has(url)) modules.set(url, made);
  return modules.get(url);
}

const sharedModule = (namespace) =>
  new SyntheticModule(
    Object.keys(namespace),
    function () {
      for (const name of Object.keys(namespace))
        this.setExport(name, namespace[name]);
    },
    { context }
  );

const entry = await moduleAt(pathToFileURL(process.argv[2]).href);
await entry.link((specifier, { identifier }) =>
  moduleAt(specifier, identifier)
);
await entry.evaluate();
