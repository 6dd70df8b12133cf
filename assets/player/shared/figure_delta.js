// Puts a figure together from its template and what differs (specviz/ui/race_messages.py).

export function compose(template, delta) {
  return {
    data: template.data.map((trace, index) => ({ ...trace, ...delta.data[index] })),
    layout: { ...template.layout, ...delta.layout },
  };
}
