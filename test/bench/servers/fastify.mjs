/** Fastify as its manual shows it: schemas, and a bearer check before the body is read.
 * With a store: one transaction a request; without: nothing is kept. */
import { fastify } from "fastify";
import { announce, store, token } from "./common.mjs";

const { openPlants } = store === "" ? {} : await import("./sqlite.mjs");
const keep = openPlants?.(store) ?? (() => undefined);
const text = { type: "string" };
const plant = {
  type: "object",
  required: ["name"],
  properties: { name: text, tag: text }
};
const newPlant = {
  type: "object",
  required: ["id", "name"],
  properties: { id: { type: "integer" }, ...plant.properties }
};
const app = fastify();
app.addHook("onRequest", async (request, reply) => {
  if (request.headers.authorization === `Bearer ${token}`) return;
  return reply
    .code(401)
    .send({ error: 40101, message: "A bearer token is needed." });
});
app.post(
  "/plants",
  { schema: { body: newPlant, response: { 200: plant } } },
  async (request) => {
    keep(request.body);
    return request.body;
  }
);
await app.listen({ port: 0, host: "127.0.0.1" });
announce(app.server.address().port);
