/** The plant store's own library before a store that keeps nothing: the cost of HTTP alone. */
import { createPlantServer } from "../../../dist/index.js";
import { listen, token } from "./common.mjs";

const nothing = { append: () => Promise.resolve(), close: () => Promise.resolve() };
listen(createPlantServer({ store: nothing, tokens: [token] }));
