// The base class of XBot's modules, as far as a module needs one: a name, and commands that lead to its methods `_op`.

const replace = Function.prototype.call.bind(String.prototype.replaceAll);

export class XModule {
  constructor(given) {
    this._name = typeof given === "string" ? given : given?._name ?? given?.name ?? new.target._name;
  }

  /** For subclasses that call it. There is nothing to load. */
  load() {}

  /** Have a command done by the method that it names. */
  async execute(command) {
    const method = this[`_${replace(`${command?._op}`, "-", "_")}`];
    if (typeof method !== "function") throw new TypeError(`the module ${this._name} has no operation ${command?._op}`);
    return await method.call(this, command);
  }
}
