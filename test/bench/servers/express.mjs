/** Express with its own body parser, checks by hand, and one transaction a request. */
import express from "express";
import { createServer } from "node:http";
import { listen, store, token } from "./common.mjs";
import { openPlants } from "./sqlite.mjs";

const keep = openPlants(store);
const isText = (value) => typeof value === "string";
const app = express();
app.use((request, response, next) => {
  if (request.headers.authorization === `Bearer ${token}`) next();
  else
    response
      .status(401)
      .json({ error: 40101, message: "A bearer token is needed." });
});
app.use(express.json());
app.post("/plants", (request, response) => {
  const { id, name, tag } = request.body ?? {};
  if (
    !Number.isInteger(id) ||
    !isText(name) ||
    !(tag === undefined || isText(tag))
  ) {
    response
      .status(400)
      .json({ error: 40001, message: "This is no NewPlant." });
    return;
  }
  keep({ id, name, tag });
  response.json({ name, tag });
});
listen(createServer(app));
