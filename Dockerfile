# For classrooms and for a Space of sdk docker: docker build -t specviz . && docker run -p 7860:7860 specviz
FROM python:3.11-slim

RUN useradd --create-home --uid 1000 user
USER user
ENV HOME=/home/user PATH=/home/user/.local/bin:$PATH PYTHONUNBUFFERED=1 HOST=0.0.0.0 PORT=7860
WORKDIR /home/user/app

# Dependencies first: this layer is rebuilt only when they change. The CPU index keeps gigabytes of
# CUDA libraries out; build with --build-arg TORCH_INDEX=https://pypi.org/simple for a GPU machine.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY --chown=user requirements.txt constraints.txt ./
RUN pip install --no-cache-dir --user torch==2.13.0 --index-url ${TORCH_INDEX} \
    && pip install --no-cache-dir --user -r requirements.txt -c constraints.txt

COPY --chown=user app.py ./
COPY --chown=user specviz ./specviz
COPY --chown=user assets ./assets
COPY --chown=user docs/sixty_lines.py docs/sixty_lines.toml ./docs/
COPY --chown=user docs/exercises ./docs/exercises

# The chat model, as a part of the image; without it the app starts on the bundled pair.
RUN python -m specviz models --get smollm2 || echo "built without the chat model"

EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/health', timeout=4)"]
CMD ["python", "app.py"]
