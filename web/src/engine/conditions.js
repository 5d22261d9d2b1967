/** What ops of a replay share: cores of machines, links, compute beside communication. */

/** @typedef {import("./pack.js").Pack} Pack */

const HOSTS = ["machine", "cores", "works", "cpu", "turn", "beside"];
const SHAPED = [
  "message_of_op", "size", "link_ptr", "link", "capacity", "burst", "source", "target", "other",
  "cores", "cpu_ns_per_byte", "window_bytes", "message_ns", "late_ns",
];
const FLOWS = ["flow_of_op", "size", "tail_ns", "link_ptr", "link", "weight", "capacity"];

export class Conditions {
  /**
   * @param {import("./engine.js").Engine} engine
   * @param {Pack} pack with the columns of `paceline.replay.shared`
   */
  constructor(engine, pack) {
    this.engine = engine;
    this.pack = pack;
  }

  /** Whether the file carries any. @param {Pack} pack */
  static in(pack) {
    return pack.has("sort");
  }

  /**
   * Call with the address of the sharing of one replay: links start afresh each time.
   * @template R
   * @param {(sharing: number) => R} replayed
   * @returns {R}
   */
  during(replayed) {
    const { heap, calls } = this.engine;
    const flows = this.flows();
    const handle = this.withHosts((hosts) =>
      heap.withTable([...this.own(), flows, hosts], (at) => calls.sharing_new(at)),
    );
    try {
      return replayed(calls.sharing_of(handle));
    } finally {
      calls.sharing_delete(handle);
      if (flows) calls.flows_delete(flows);
    }
  }

  /** Sizes and columns of the sharing itself. */
  own() {
    const [sort, device, slowed, carried] = this.columns("", ["sort", "device", "slowed", "carried"]);
    return [sort.length, device.length, slowed.length / 2, sort, device, slowed, carried];
  }

  /**
   * @template R
   * @param {(hosts: number) => R} call with the address of a table, or 0
   * @returns {R}
   */
  withHosts(call) {
    if (!this.pack.has("hosts_machine")) return call(0);
    const columns = this.columns("hosts_", HOSTS);
    const [machine, cores, works] = columns;
    const loaded = Number(this.pack.facts.loaded === true);
    const sizes = [works.length, machine.length, cores.length, loaded];
    return this.engine.heap.withTable([...sizes, ...columns], call);
  }

  /** Links that have yet to carry anything; 0 where nothing is carried. */
  flows() {
    const { heap, calls } = this.engine;
    if (this.pack.has("shaped_size")) {
      const columns = this.columns("shaped_", SHAPED);
      const [ops, size, , link, capacity, , , , , cores] = columns;
      const sizes = [ops, size, link, capacity, cores].map((column) => column.length);
      return heap.withTable([...sizes, ...columns], (at) => calls.shaped_new(at));
    }
    if (this.pack.has("flows_size")) {
      const columns = this.columns("flows_", FLOWS);
      const [ops, size, , , link, , capacity] = columns;
      const sizes = [ops, size, link, capacity].map((column) => column.length);
      return heap.withTable([...sizes, ...columns], (at) => calls.carried_new(at));
    }
    return 0;
  }

  /** @param {string} prefix @param {string[]} names */
  columns(prefix, names) {
    return names.map((name) => this.pack.column(prefix + name));
  }
}
