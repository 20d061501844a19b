// What is in the calendar, and one event more. Every word goes to the program as an argument of its own, and what comes
// from a caller stands behind `--` or joined to its option, so no title can pass for an option.

const PROGRAM = "ical-query";

const ACTIONS = { lookup, create };

// What a caller hears when the program says one of these; of everything else it is enough that it went wrong.
const HEARD = [
  [/no calendar of that name/, "I know no calendar of that name. Which one shall it be?"],
  [/is not known/, "I cannot tell whether it is in the calendar now. Somebody should look before it is added again."],
];
const OUT_OF_REACH = "The calendar is out of my reach right now. I will leave a note so that somebody looks into it.";

module.exports = async function calendarQuery(params, context) {
  const asked = params ?? {};
  if (!Object.hasOwn(ACTIONS, asked.action)) {
    return {
      success: false,
      error: `unknown action: ${asked.action}`,
      message: "I can read the calendar out or add something to it. What shall I do?",
    };
  }
  try {
    return await ACTIONS[asked.action](asked, context);
  } catch (failure) {
    const error = reason(failure);
    const [, message] = HEARD.find(([words]) => words.test(error)) ?? [null, OUT_OF_REACH];
    return { success: false, error, message };
  }
};

async function lookup({ range, calendar }, context) {
  const days = text(range) || "today";
  const lines = (await run(context, { calendar }, [days])).split("\n").filter(Boolean);
  return lines.length === 0
    ? { success: true, message: `There is nothing in the calendar for ${days}.`, result: { events: [] } }
    : { success: true, message: lines.join("\n"), result: { events: lines } };
}

async function create(asked, context) {
  const event = {};
  for (const name of ["title", "start", "end", "calendar", "location", "notes"]) {
    if (text(asked[name])) event[name] = text(asked[name]);
  }
  const missing = ["title", "start", "end"].filter((name) => !(name in event));
  if (missing.length > 0) {
    return {
      success: false,
      error: `missing: ${missing.join(", ")}`,
      message: "To add that I have to know what it is called, when it begins and when it ends.",
    };
  }
  const { title, start, end, ...options } = event;
  const output = await run(context, options, ["add", title, start, end]);
  await logged(context, { type: "skill.calendar.create", ...event, output });
  return { success: true, message: `It is in the calendar now: ${title}.`, result: { created: true, output } };
}

async function run(context, options, words) {
  const given = Object.entries(options).filter(([, value]) => text(value));
  const output = await context.exec([PROGRAM, ...given.map(([name, value]) => `--${name}=${text(value)}`), "--", ...words]);
  return String(output ?? "").trim();
}

/** The event is there whether or not the log takes the entry: saying it failed would have it added twice. */
async function logged(context, entry) {
  try {
    await context.callLog.write(entry);
  } catch {
    // The runtime keeps its own record of the call.
  }
}

function text(value) {
  return typeof value === "string" ? value.trim() : "";
}

function reason(failure) {
  return failure instanceof Error ? failure.message : String(failure);
}
